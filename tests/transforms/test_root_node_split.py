import pytest
import torch

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.transforms import RootNodeSplit

Y = torch.arange(40) % 4


@pytest.fixture
def data():
    trees = TokenTrees(torch.zeros(40, 3, dtype=torch.long), Y, Y * 0, 2, 4, TreeShape((2,)))
    return trees.to_data(torch.eye(2))


def test_only_roots_are_chosen(data):
    out = RootNodeSplit(num_val=0.25, num_test=10)(data)
    sizes = [int(out[f'{name}_mask'].sum()) for name in ('train', 'val', 'test')]
    assert sizes == [20, 10, 10]  # shares of the 40 roots, not of the 120 nodes
    assert torch.equal(out.train_mask | out.val_mask | out.test_mask, out.root_mask)


def test_training_roots_per_class_and_several_splits(data):
    split = RootNodeSplit('random', num_splits=3, num_train_per_class=2, num_val=8, num_test=8)
    out = split(data)
    assert out.train_mask.shape == (120, 3)
    for mask in out.train_mask.t():
        assert out.y[mask].bincount().tolist() == [2] * 4
