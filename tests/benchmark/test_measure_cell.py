import pytest
import torch

from torch_geometric_cgt.benchmark.experiments import GraphSpec
from torch_geometric_cgt.benchmark.measure_cell import other_dataset
from torch_geometric_cgt.data import TokenTrees, TreeShape


@pytest.mark.parametrize('width', [10, 80])
def test_another_dataset_gets_the_width_and_the_labels_of_the_target(width: int) -> None:
    tokens, one = torch.zeros(1, 3).long(), torch.ones(1).long()
    target = TokenTrees(tokens, one, one, 6, 12, TreeShape((2,)), torch.rand(6, width))
    trees = other_dataset('Digits', target, GraphSpec('Cora', (2,)))
    assert isinstance(trees.x, torch.Tensor)
    assert trees.x.shape == (1770, width)
    assert trees.num_classes == 12
    assert trees.shape == target.shape
    assert bool((trees.x[:, 64:] == 0).all())  # 64 pixels
