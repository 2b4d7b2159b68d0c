import pytest
import torch

from tests.helpers.private_models import NUM_CLASSES, draw_trees, learn, make, rng
from torch_geometric_cgt.data import TreeShape


def test_the_number_of_trees_is_a_part_of_what_is_paid_for():
    shape = TreeShape.of((3, 2))
    model, entries = make('dp_sgd', 800, shape)
    tokens, y = draw_trees(900, shape), torch.arange(900) % NUM_CLASSES
    with pytest.raises(ValueError, match='planned for 800 trees'):
        learn(model, tokens, y, entries, rng())
