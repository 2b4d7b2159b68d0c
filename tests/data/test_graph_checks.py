import pytest
import torch
from torch_geometric.data import Data

from torch_geometric_cgt.data.graph_checks import add_masks
from torch_geometric_cgt.errors import SourceError


def test_a_graph_without_indices_is_returned_as_it_is():
    data = Data(x=torch.zeros(3, 1), train_mask=torch.ones(3).bool())
    assert add_masks(data) is data


def test_indices_become_masks_and_the_graph_of_the_user_stays():
    data = Data(x=torch.zeros(4, 1), train_idx=torch.tensor([2, 0]), test_idx=[1])
    out = add_masks(data)
    assert out.train_mask.tolist() == [True, False, True, False]
    assert out.test_mask.tolist() == [False, True, False, False]
    assert 'val_mask' not in out and 'train_mask' not in data and out.x is data.x


@pytest.mark.parametrize(
    'index, message',
    [([4], 'got 4 to 4'), ([-1], 'got -1'), ([0.5], 'float32'), ('all', "got 'str'")],
)
def test_wrong_indices(index, message):
    with pytest.raises(SourceError, match=message):
        add_masks(Data(x=torch.zeros(4, 1), val_idx=index))
