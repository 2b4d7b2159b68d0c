"""Resampled trees are those of the source, with the asked label."""

import pytest
import torch

from torch_geometric_cgt.baselines import Resampled
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import FitContext, TreeSource

NULL = 4
TREES = torch.tensor([[0, 1, NULL], [0, 1, 2], [3, NULL, NULL], [3, 2, 2]])
LABELS = torch.tensor([0, 0, 2, 2])


@pytest.fixture
def source():
    return TreeSource(
        lambda index, rng: TREES[index], LABELS, torch.ones(4).long(), NULL, 3, TreeShape((2,))
    )


def test_trees_have_the_asked_label_and_are_equally_likely(source):
    model = Resampled(NULL, 3, [2])
    assert model.copies_trees
    assert model.fit(source, FitContext(seed=1)) == {'num_trees': 4}
    y = torch.tensor([0, 2]).repeat(2000)
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    for label in (0, 2):
        rows, count = tokens[y == label].unique(dim=0, return_counts=True)
        assert {tuple(r) for r in rows.tolist()} == {
            tuple(r) for r in TREES[LABELS == label].tolist()
        }
        assert (count.double() / 2000 - 0.5).abs().max() < 0.05


def test_a_label_without_trees_gets_any_tree(source):
    model = Resampled(NULL, 3, [2])
    model.fit(source)
    tokens = model.sample(torch.ones(300).long(), torch.Generator().manual_seed(0))
    assert {tuple(r) for r in tokens.tolist()} == {tuple(r) for r in TREES.tolist()}


def test_state_is_loaded_into_an_empty_model(source):
    model = Resampled(NULL, 3, [2])
    with pytest.raises(ValueError, match='not fitted'):
        model.sample(LABELS)
    model.fit(source)
    again = Resampled(**model.config())
    again.load_state_dict(model.state_dict())
    first, second = (m.sample(LABELS, torch.Generator().manual_seed(3)) for m in (model, again))
    assert torch.equal(first, second)


def test_the_same_seed_keeps_the_same_trees():
    def draw(index, rng):
        return torch.randint(NULL, (index.numel(), 3), generator=rng)

    source = TreeSource(draw, LABELS, LABELS, NULL, 3, TreeShape((2,)))
    states = []
    for seed in (0, 0, 1):
        model = Resampled(NULL, 3, [2], num_draws=3)
        model.fit(source, FitContext(seed=seed))
        states.append(model.state_dict()['tree'])
    assert states[0].shape == (12, 3)
    assert torch.equal(states[0], states[1]) and not torch.equal(states[0], states[2])
