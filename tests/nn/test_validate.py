import pytest
import torch

from tests.helpers.generators import make
from torch_geometric_cgt import CGTGenerator


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'num_tokens': 0}, "'num_tokens' must be at least 1"),
        ({'num_neighbors': []}, 'num_neighbors'),
        ({'hidden_channels': 10, 'num_heads': 4}, 'divisible'),
        ({'dropout': 1.0}, "'dropout'"),
        ({'position': 'nowhere'}, "got 'nowhere'"),
        ({'attention': 'some'}, "got 'some'"),
        ({'siblings': 'many'}, "got 'many'"),
        ({'vocabulary': 'huge'}, "got 'huge'"),
        ({'evaluation': 'quick'}, "got 'quick'"),
        ({'num_types': 0}, "'num_types' must be at least 1"),
        ({'num_scenes': -1}, "'num_scenes'"),
        ({'position': 'slot'}, "needs siblings='independent'"),
    ],
)
def test_wrong_arguments(arguments, message):
    good = {'num_tokens': 5, 'num_classes': 2, 'num_neighbors': [2]}
    with pytest.raises(ValueError, match=message):
        CGTGenerator(**{**good, **arguments})


def test_wrong_shapes():
    model = make([2])
    with pytest.raises(ValueError, match=r'\[B, 3\]'):
        model(torch.zeros(2, 4).long(), torch.zeros(2).long())
    with pytest.raises(ValueError, match='one label per tree'):
        model(torch.zeros(2, 3).long(), torch.zeros(3).long())
    with pytest.raises(ValueError, match='one scene per tree'):
        make([2], num_scenes=2)(torch.zeros(2, 3).long(), torch.zeros(2).long())


@pytest.mark.parametrize(
    'tokens, y, message', [(6, 0, "'tokens'"), (-1, 0, "'tokens'"), (1, 3, "'y'")]
)
def test_values_out_of_range(tokens, y, message):
    with pytest.raises(ValueError, match=message):
        make([2])(torch.full((2, 3), tokens), torch.full((2,), y))
