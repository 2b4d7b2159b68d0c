"""Trees as rows of tokens: by hand, and what is refused."""

import pytest
import torch

from tests.helpers.trees import two_trees
from torch_geometric_cgt.data import TokenTrees


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
