"""Promises: contradictions are refused before anything runs, and what is reached is measured."""

import pytest
import torch

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity
from torch_geometric_cgt.pipeline.promise import measure_clusters
from torch_geometric_cgt.pipeline.tree_facts import count_equal_rows, unique_share


@pytest.mark.parametrize(
    'wrong, error, message',
    [
        ({'cluster_epsilon': 0}, BudgetError, 'epsilon'),
        ({'cluster_epsilon': 1, 'l': 2}, ValueError, "'l' is not for method='dp'"),
        ({'cluster_epsilon': 1, 'task_weight': 0.5}, ValueError, "'task_weight' is not for"),
    ],
)
def test_what_private_clusters_cannot_do(wrong, error, message):
    with pytest.raises(error, match=message):
        KAnonymity(**wrong)


@pytest.mark.parametrize(
    'wrong, message',
    [
        ({'unit': 'person'}, "must be one of 'node', 'attributes'.*got 'person'"),
        ({'form': 'wishes'}, "'form' must be one of.*got 'wishes'"),
        ({'form': 'histograms'}, "Set 'max_degree'.*form='mixing' protects all nodes"),
        ({'form': 'dp_sgd'}, "Set 'max_degree'"),
        ({'max_degree': 0}, "'max_degree' must be at least 1 .got 0"),
        ({'max_parents': 0}, "'max_parents' must be at least 1"),
        ({'unit': 'edge', 'k': 0}, "'k' must be at least 1"),
        ({'num_classes': 0}, "'num_classes' must be at least 1"),
        ({'clusters': {'epsilon': 1.0}}, "'clusters' must not hold"),
        ({'clusters': {'colour': 1}}, "Unknown argument in 'clusters'"),
    ],
)
def test_what_cannot_be_promised(wrong, message):
    with pytest.raises(ValueError, match=message):
        DifferentialPrivacy(4.0, **wrong)


def test_models_of_trees_need_a_degree_for_nodes_only():
    for form in ('histograms', 'dp_sgd'):
        assert DifferentialPrivacy(4.0, form=form, max_degree=9).max_degree == 9
        for unit in ('attributes', 'edge', 'frozen_record'):
            assert DifferentialPrivacy(4.0, form=form, unit=unit).max_degree is None


def test_the_default_unit_is_a_node_with_everything():
    promise = DifferentialPrivacy(4.0)
    assert (promise.unit, promise.form) == ('node', 'auto')
    assert promise.budget(100).unit == 'node'
    assert 'max_degree' not in promise.to_dict()


def test_the_old_name_of_a_record_is_replaced_with_a_warning():
    with pytest.warns(DeprecationWarning, match="'record' is deprecated. use 'frozen_record'"):
        promise = DifferentialPrivacy(4.0, unit='record')
    assert promise.unit == 'frozen_record' and promise.to_dict()['unit'] == 'frozen_record'


def test_equal_rows_are_counted_as_unique_counts_them():
    rows = torch.randint(3, (500, 4), generator=torch.Generator().manual_seed(0))
    expected = rows.unique(dim=0, return_counts=True)[1]
    assert count_equal_rows(rows).tolist() == expected.tolist()
    wide = rows * 2_000_000_000  # columns whose product leaves 64 bits
    assert count_equal_rows(wide).tolist() == expected.tolist()


def test_clusters_by_hand():
    cluster, y = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 0, -1, 0, 1])
    found = measure_clusters(cluster, y)
    assert (
        found.pop('t_closeness') == 0.25
    )  # label 0: 3/4 of all, 1 in one cluster, 1/2 in the other
    assert found == {'k_reached': 2, 'num_clusters': 2, 'homogeneous': 1, 'l_reached': 1}
    assert measure_clusters(cluster, y, 4)['k_reached'] == 0  # two clusters are empty


def test_the_order_of_children_makes_no_root_unique():
    tokens = torch.tensor([[0, 1, 2], [0, 2, 1], [0, 1, 2], [0, 1, 1]])
    assert unique_share(torch.tensor([0, 0, 1, 1]), tokens) == 0.5  # the last two
