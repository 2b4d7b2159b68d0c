"""GraphDF: its maps are bijections, its likelihood is exact, and its trees approach the toy set."""

from itertools import product

import pytest
import torch

from tests.helpers.labelled_trees import (
    NUM_CLASSES,
    NUM_NEIGHBORS,
    NUM_TOKENS,
    distance,
    share_of_copies,
    toy_source,
)
from torch_geometric_cgt.baselines import GraphDF
from torch_geometric_cgt.baselines.graph_df import ModuloShift
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import FitContext

LABELS = torch.arange(2000) % NUM_CLASSES


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def fit(shift, num_steps):
    model = GraphDF(NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS, 16, shift, num_steps, lr=0.02)
    return model, model.fit(toy_source(), FitContext(seed=0))


@pytest.fixture(scope='module', params=['argmax', 'sampled'])
def trained(request):
    return fit(request.param, 150)


@pytest.mark.parametrize('num_values', [1, 2, 3, 7])
def test_every_shift_is_a_bijection(num_values):
    flow = ModuloShift(num_values, 1, 4, False)
    z = torch.arange(num_values)
    for mu in range(-num_values, 2 * num_values):
        x = flow(z, torch.tensor(mu))
        assert sorted(x.tolist()) == list(range(num_values))
        assert torch.equal(flow.inverse(x, torch.tensor(mu)), z)


@pytest.mark.parametrize('shift', ['argmax', 'sampled'])
def test_the_likelihoods_of_all_trees_sum_to_one(shift):
    torch.manual_seed(0)
    model = GraphDF(2, 2, [2, 1], 8, shift)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    shape = TreeShape.of([2, 1])
    trees = torch.tensor(list(product(range(3), repeat=5)))
    real = trees < 2
    valid = real[:, 0] & ~(real[:, 1:] & ~real[:, shape.parent[1:]]).any(dim=1)
    trees = trees[valid]
    with torch.no_grad():
        for label in range(2):
            log_prob = model.log_prob(trees, torch.full((len(trees),), label))
            torch.testing.assert_close(log_prob.exp().sum(), torch.tensor(1.0))


def test_samples_have_the_likelihood(trained):
    """Frequencies of attachment patterns and of roots follow the log-likelihood."""
    model = GraphDF(2, 1, [2], 8, trained[0].shift)
    torch.manual_seed(3)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.is_fitted.fill_(True)
    trees = torch.tensor(list(product(range(2), range(3), range(3))))
    with torch.no_grad():
        expected = model.log_prob(trees, torch.zeros(18, dtype=torch.long)).exp()
    drawn = model.sample(torch.zeros(20000, dtype=torch.long), rng())
    code = (drawn * torch.tensor([9, 3, 1])).sum(dim=1)
    found = torch.bincount(code, minlength=18) / 20000
    assert (found - expected).abs().max() < 0.015


def test_the_loss_falls_and_samples_approach_the_source(trained):
    model, history = trained
    assert history['loss'][-1] < 0.75 * history['loss'][0]
    untrained = distance(fit(model.shift, 1)[0].sample(LABELS, rng()), LABELS)
    assert distance(model.sample(LABELS, rng()), LABELS) < min(0.1, untrained / 4)


def test_labels_and_parents_decide(trained):
    model = trained[0]
    tokens = model.sample(LABELS, rng())
    assert ((tokens[:, 0] >= 3) == (LABELS == 1)).float().mean() > 0.95
    # Without parents, one of three children would have the token of its parent.
    assert share_of_copies(tokens) > (0.7 if model.shift == 'sampled' else 0.5)


def test_the_straight_through_gradient_leaves_the_value_alone():
    torch.manual_seed(0)
    flow = ModuloShift(5, 1, 4, False)
    torch.nn.init.normal_(flow.prior.weight, std=0.1)
    x, row, context = torch.arange(5), torch.zeros(5, dtype=torch.long), torch.randn(5, 4)
    log_prob = flow.log_prob(x, row, context)
    z = flow.inverse(x, flow.scores(context).argmax(dim=1))
    torch.testing.assert_close(log_prob, flow.log_prior(row)[row, z])
    log_prob.sum().backward()
    assert flow.out.weight.grad.abs().sum() > 0


def test_unknown_shifts_are_refused():
    with pytest.raises(ValueError, match="'shift' must be one of"):
        GraphDF(2, 2, [2], shift='mean')
