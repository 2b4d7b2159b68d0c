"""GraphEBM: its energy ranks data below noise, and its samples follow the energy."""

import pytest
import torch

from tests.helpers.labelled_trees import (
    NUM_CLASSES,
    NUM_NEIGHBORS,
    NUM_TOKENS,
    SHAPE,
    distance,
    toy_source,
    toy_trees,
)
from tests.helpers.trees import random_tokens, shuffle_siblings
from torch_geometric_cgt.baselines import GraphEBM
from torch_geometric_cgt.models import FitContext

LABELS = torch.arange(400) % NUM_CLASSES


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def fit(num_steps):
    sizes = (NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS)
    steps = {'langevin_steps': 10, 'sample_steps': 80, 'num_steps': num_steps}
    model = GraphEBM(*sizes, 32, **steps, lr=0.01)
    model.fit(toy_source(), FitContext(seed=0))
    return model


@pytest.fixture(scope='module')
def trained():
    return fit(80)


def energy_of(model, tokens, y):
    with torch.no_grad():
        return model.energy(model.dequantize(tokens, rng()), y)


def share_below(one, other):
    """How often an energy of the first is below one of the second."""
    return float((one[:, None] < other).float().mean())


def test_data_lie_below_noise_and_below_other_labels(trained):
    tokens, y = toy_trees(300, seed=5)
    data = energy_of(trained, tokens, y)
    with torch.no_grad():
        noise = trained.energy(trained.start(y, rng()), y)
    assert share_below(data, noise) > 0.95
    assert share_below(data, energy_of(trained, random_tokens(SHAPE, 300, NUM_TOKENS), y)) > 0.8
    assert share_below(data, energy_of(trained, tokens, 1 - y)) > 0.9


def test_samples_approach_the_source(trained):
    untrained = distance(fit(1).sample(LABELS, rng()), LABELS)
    tokens = trained.sample(LABELS, rng())
    assert distance(tokens, LABELS) < min(0.25, untrained / 1.5)
    assert ((tokens[:, 0] >= 3) == (LABELS == 1)).float().mean() > 0.75
    real = (tokens < NUM_TOKENS).sum(dim=1).float()
    assert real[LABELS == 1].mean() > real[LABELS == 0].mean() + 2


class Quadratic(torch.nn.Module):
    """The energy of a normal distribution with mean and standard deviation 0.5."""

    def forward(self, x, y):
        return 2 * (x - 0.5).square().sum(dim=(1, 2))


def test_langevin_dynamics_have_the_density_of_the_energy():
    model = GraphEBM(2, 1, [1], step_size=0.05)
    model.energy = Quadratic()
    y = torch.zeros(3000, dtype=torch.long)
    x = model.langevin(model.start(y, rng()), y, 100, rng(1))
    assert (x.mean(dim=0) - 0.5).abs().max() < 0.05
    assert (x.std(dim=0) - 0.5).abs().max() < 0.05


def test_trees_come_back_from_their_vectors():
    model = GraphEBM(NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS)
    tokens, _ = toy_trees(100)
    assert torch.equal(model.decode(model.dequantize(tokens, rng())), tokens)


def test_the_energy_does_not_depend_on_the_order_of_siblings():
    torch.manual_seed(0)
    model = GraphEBM(NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS).double()
    x = torch.randn(1, SHAPE.num_slots, 1 + model.codes.num_bits, dtype=torch.double)
    slots = torch.arange(SHAPE.num_slots)[None]
    other = shuffle_siblings(slots, SHAPE, seed=1)[0]
    assert not torch.equal(other, slots[0])
    y = torch.zeros(1, dtype=torch.long)
    torch.testing.assert_close(model.energy(x, y), model.energy(x[:, other], y))
    assert (model.energy(x, y) - model.energy(x.flip(1), y)).abs() > 1e-6


def test_the_buffer_keeps_samples_with_their_labels():
    model = GraphEBM(NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS, 8, langevin_steps=1)
    y = torch.ones(50, dtype=torch.long)
    found, label = model.negatives(y, rng())
    assert (label == 1).all() and (model.buffer[1] == 1).all()
    kept = {tuple(row) for row in model.buffer[0].flatten(1).tolist()}
    assert all(tuple(row) in kept for row in found.flatten(1).tolist())
    label = model.negatives(torch.zeros_like(y).repeat(20), rng(1))[1]
    assert 0.9 < label.float().mean() < 0.99  # a few samples start again, with the new label
