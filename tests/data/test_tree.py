import pytest
import torch

from tests.helpers.trees import two_trees
from torch_geometric_cgt.data import TreeShape, build_forest


def test_binary_tree_by_hand():
    shape = TreeShape.of([2, 2])
    assert shape.layer_sizes == (1, 2, 4)
    assert (shape.num_slots, shape.num_internal, shape.depth) == (7, 3, 2)
    assert shape.parent.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    assert shape.layer.tolist() == [0, 1, 1, 2, 2, 2, 2]
    assert shape.is_ancestor[5].tolist() == [True, False, True, False, False, True, False]


def test_mixed_fan_outs_by_hand():
    shape = TreeShape.of([2, 3])
    assert shape.parent.tolist() == [-1, 0, 0, 1, 1, 1, 2, 2, 2]
    assert shape.layer_slice(2) == slice(3, 9)


@pytest.mark.parametrize('fan_outs', [[4], [2, 3], [2, 3, 2], [5, 5, 5], [2, 1, 3, 2]])
def test_ancestors_are_found_by_walking_up(fan_outs):
    shape = TreeShape.of(fan_outs)
    for slot in range(shape.num_slots):
        path, at = {slot}, slot
        while (at := int(shape.parent[at])) >= 0:
            path.add(at)
        assert set(shape.is_ancestor[slot].nonzero().view(-1).tolist()) == path
        assert len(path) == int(shape.layer[slot]) + 1


@pytest.mark.parametrize('wrong', [[], [0], [5, -1], [2.5], '55', 5, [True], None])
def test_wrong_fan_outs_are_refused(wrong):
    with pytest.raises(ValueError, match='num_neighbors'):
        TreeShape.of(wrong)


def test_null_rule():
    shape = TreeShape.of([2, 1])
    good = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]]).bool()
    assert shape.check_nulls(good)
    assert not shape.check_nulls(torch.tensor([[0, 0, 0, 0, 0]]).bool())
    assert not shape.check_nulls(torch.tensor([[1, 1, 0, 0, 1]]).bool())


def test_children_of_a_slot_are_a_range_of_slots():
    shape = TreeShape.of([2, 3, 1])
    begin, end = shape.children
    for slot in range(shape.num_slots):
        expected = (shape.parent == slot).nonzero().view(-1).tolist()
        assert list(range(int(begin[slot]), int(end[slot]))) == expected


def test_values_of_parents_need_no_index():
    for fan_outs in ([3], [2, 3, 1]):
        shape = TreeShape.of(fan_outs)
        value = torch.arange(2 * shape.num_slots).view(2, -1)
        assert torch.equal(shape.parent_values(value), value[:, shape.parent[1:]])


def test_forest_by_hand():
    data = two_trees().to_data(torch.tensor([[10.0], [20.0]]))
    assert data.x.view(-1).tolist() == [10, 20, 20, 20]
    assert data.edge_index.tolist() == [[1, 2], [0, 1]]
    assert data.y.tolist() == [1, -1, -1, 0]
    assert data.depth.tolist() == [0, 1, 2, 0]
    assert data.root_mask.tolist() == [True, False, False, True]
    assert data.train_mask.tolist() == [True, False, False, False]
    assert data.test_mask.tolist() == [False, False, False, True]
    assert not data.val_mask.any()
    data.validate()


def test_real_below_null_is_refused():
    with pytest.raises(ValueError, match='below a null'):
        build_forest(torch.tensor([[True, False, False, True, False]]), TreeShape.of([2, 1]))
