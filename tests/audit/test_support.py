import pytest

from tests.helpers.attacked import records, trees
from torch_geometric_cgt.audit.support import path_support

# Two roots with label 0, one of them drawn differently a second time.
SOURCE = records([[[0, 1, 2, 2, 3], [0, 1, 3, 2, 3]], [[0, 1, 2, 2, 3], [0, 2, 3, 3, 3]]], [0, 0])


def test_support_by_hand():
    generated = trees([[0, 1, 2, 2, 3], [0, 1, 3, 3, 3], [1, 3, 3, 3, 3]], [0, 0, 0])
    found = path_support(generated, SOURCE, k=2)
    # 0: two roots; 0 1: two; 0 2: two; 0 1 2: two; the root 1: nobody
    assert found.share_of_trees == pytest.approx(2 / 3) and found.least == 0
    assert found.share_of_paths == [pytest.approx(2 / 3), 1.0, 1.0]
    assert found.unseen == [pytest.approx(1 / 3), 0.0, 0.0]
    assert [sum(layer) for layer in found.histogram] == [3, 3, 1]
    assert found.histogram[0][0] == 1 and found.histogram[0][2] == 2
    assert found.num_roots == 2 and found.num_draws == 2


def test_other_labels_are_no_support():
    found = path_support(trees([[0, 1, 2, 2, 3]], [1]), SOURCE, k=1)
    assert found.share_of_trees == 0.0 and found.unseen == [1.0, 1.0, 1.0]


def test_a_verdict_needs_a_promise():
    found = path_support(trees([[0, 1, 3, 2, 3]], [0]), SOURCE, k=2)
    assert found.check().verdict == 'descriptive'
    assert found.check(2).verdict == 'passed' and found.check(3, 'here').verdict == 'failed'
    assert found.check(3, 'here').value == 2.0 and found.check(3, 'here').origin == 'here'
