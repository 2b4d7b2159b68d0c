"""Contexts know earlier slots alone, and are the same in training and in sampling."""

import pytest
import torch

from tests.helpers.trees import random_tokens
from torch_geometric_cgt.baselines.tree_context import TreeContext, TreeWalk, relations
from torch_geometric_cgt.data import TreeShape


def make(shape):
    torch.manual_seed(0)
    return TreeContext(5, 2, shape, 8), random_tokens(shape, 4, 5), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize('num_neighbors', [[3], [3, 2], [2, 1, 2]])
def test_training_and_sampling_have_the_same_contexts(num_neighbors):
    shape = TreeShape.of(num_neighbors)
    module, tokens, y = make(shape)
    walk = TreeWalk(module, y)
    with torch.no_grad():
        expected = module(tokens, y)
        for slot in range(shape.num_slots):
            torch.testing.assert_close(walk.context(slot), expected[:, slot])
            walk.add(slot, tokens[:, slot])


def test_a_context_depends_on_all_earlier_slots_and_on_no_later_one():
    shape = TreeShape.of([3, 2])
    module, tokens, y = make(shape)
    with torch.no_grad():
        for changed in range(shape.num_slots):
            other = tokens.clone()
            other[:, changed] = (other[:, changed] + 1) % 6
            differs = (module(tokens, y) != module(other, y)).any(dim=2)
            assert not differs[:, : changed + 1].any()
            assert differs[:, changed + 1 :].all()
        assert (module(tokens, y) != module(tokens, 1 - y)).any(dim=2).all()


def test_relations_by_hand():
    ancestor, sibling, earlier = relations(TreeShape.of([3]))
    assert ancestor.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert sibling.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0]]
    torch.testing.assert_close(earlier[3], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]))
