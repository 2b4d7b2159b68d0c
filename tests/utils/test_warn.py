"""Warnings name the line of the user, however deep in the package they arise."""

import warnings

import pytest

from tests.helpers.builds import plain
from torch_geometric_cgt import DifferentialPrivacy, SyntheticCGTDataset
from torch_geometric_cgt.utils.warn import warn_user


def test_a_direct_warning_names_its_caller():
    with pytest.warns(UserWarning, match='careful') as found:
        warn_user('careful')
    assert found[0].filename == __file__
    with pytest.warns(DeprecationWarning, match='old'):
        warn_user('old', DeprecationWarning)


def test_warnings_of_a_build_name_the_line_that_builds(graph, quick):
    graph.edge_index = graph.edge_index[:, :3]  # most roots have no neighbours
    graph.y = (graph.x[:, 0] > graph.x[:, 0].median()).long()  # as clusters say
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter('always')
        SyntheticCGTDataset(graph, **plain(quick))
    where = {str(w.message): w.filename for w in found if w.category is UserWarning}
    assert where and set(where.values()) == {__file__}


def test_a_deprecated_unit_names_the_line_of_the_promise():
    with pytest.warns(DeprecationWarning) as found:
        DifferentialPrivacy(epsilon=1.0, unit='record')
    assert found[0].filename == __file__
