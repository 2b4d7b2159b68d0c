"""Generators that draw slot by slot: which slots count and are drawn, and their contexts."""

import math

import pytest
import torch

from tests.helpers.trees import random_tokens
from torch_geometric_cgt.baselines.slot_model import SlotModel, TreeContext, TreeWalk, relations
from torch_geometric_cgt.data import TreeShape


class Coin(SlotModel):
    """A slot is attached with probability 0.25 if it is even, and always if it is odd. Its token
    is its number modulo 3."""

    name = 'Coin'

    def score_attached(self, real, y, slot, context, rng):
        chance = torch.where(slot % 2 == 0, 0.25, 1.0)
        return torch.where(real, chance, 1 - chance).log()

    def score_token(self, token, y, slot, context, rng):
        return torch.where(token == slot % 3, 0.0, -math.inf)

    def draw_attached(self, y, slot, context, rng):
        return (slot % 2 == 1) | (torch.rand(y.shape, generator=rng) < 0.25)

    def draw_token(self, y, slot, context, rng):
        return slot % 3


def make():
    model = Coin(3, 1, [2, 2], 4, 1, 1, 0.1)
    model.is_fitted.fill_(True)
    return model


def test_slots_below_null_slots_do_not_count():
    y = torch.zeros(3, dtype=torch.long)
    trees = [
        [0, 1, 2, 0, 1, 2, 0],  # slots 2, 4 and 6 have 0.25 each
        [0, 1, 3, 0, 3, 3, 3],  # slots 2 and 4 have 0.75 each, slots 5 and 6 do not count
        [0, 1, 3, 1, 3, 3, 3],  # slot 3 has another token
    ]
    found = make().score(torch.tensor(trees), y).exp()
    torch.testing.assert_close(found, torch.tensor([0.25**3, 0.75**2, 0.0]))


def test_drawn_trees_have_these_frequencies():
    y = torch.zeros(20_000, dtype=torch.long)
    model = make()
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    # Slots below null slots are null when later slots are drawn, not only in the result.
    assert torch.equal(model.draw(y, torch.Generator().manual_seed(0)), tokens)
    trees, count = tokens.unique(dim=0, return_counts=True)
    expected = model.score(trees, y[: len(trees)]).exp()
    assert len(trees) == 6  # slot 4 is real or null; slot 2 is null, or real with two more cases
    assert (count / 20_000 - expected).abs().max() < 0.02


def context_and_trees(shape):
    torch.manual_seed(0)
    return TreeContext(5, 2, shape, 8), random_tokens(shape, 4, 5), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize('num_neighbors', [[3], [3, 2], [2, 1, 2]])
def test_training_and_sampling_have_the_same_contexts(num_neighbors):
    shape = TreeShape.of(num_neighbors)
    module, tokens, y = context_and_trees(shape)
    walk = TreeWalk(module, y)
    with torch.no_grad():
        expected = module(tokens, y)
        for slot in range(shape.num_slots):
            torch.testing.assert_close(walk.context(slot), expected[:, slot])
            walk.add(slot, tokens[:, slot])


def test_a_context_depends_on_all_earlier_slots_and_on_no_later_one():
    shape = TreeShape.of([3, 2])
    module, tokens, y = context_and_trees(shape)
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
