import pytest
import torch

from tests.helpers.trees import two_trees
from torch_geometric_cgt.data import TokenTrees, TreeShape, build_forest, masks_of, random_split


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


@pytest.mark.parametrize(
    'change, message',
    [
        ({'tokens': torch.tensor([[0, 1, 2, 3, 2]] * 2)}, 'token lies outside'),
        ({'tokens': torch.tensor([[-1, 1, 2, 1, 2]] * 2)}, 'token lies outside'),
        ({'tokens': torch.zeros(2, 4, dtype=torch.long)}, 'Expected tokens of shape'),
        ({'tokens': torch.tensor([[2, 2, 2, 2, 2]] * 2)}, 'root is null'),
        ({'y': torch.tensor([0, 2])}, 'label lies outside'),
        ({'y': torch.tensor([0])}, 'labels and splits'),
        ({'split': torch.tensor([0, 8])}, 'split code lies outside'),
    ],
)
def test_inconsistent_trees_are_refused(change, message):
    good = two_trees()
    good.validate()
    with pytest.raises(ValueError, match=message):
        TokenTrees(**{**vars(good), **change}).validate()


def test_random_split_is_50_10_40_of_the_candidates():
    candidates = torch.ones(1000, dtype=torch.bool)
    candidates[:200] = False
    masks = masks_of(random_split(candidates, seed=3))
    assert [int(mask.sum()) for mask in masks.values()] == [400, 80, 320]
    assert not any(mask[:200].any() for mask in masks.values())
    assert torch.equal(random_split(candidates, 3), random_split(candidates, 3))
    assert not torch.equal(random_split(candidates, 3), random_split(candidates, 4))
