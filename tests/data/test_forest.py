import pytest
import torch

from tests.helpers.trees import two_trees
from torch_geometric_cgt.data import TreeShape, build_forest


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
