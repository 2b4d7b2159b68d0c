"""GraphVAE: its bound is a bound, and falls in training; its trees approach the toy set."""

import math

import pytest
import torch

from tests.helpers.labelled_trees import (
    NUM_CLASSES,
    NUM_NEIGHBORS,
    NUM_TOKENS,
    distance,
    toy_source,
    toy_trees,
)
from torch_geometric_cgt.baselines import GraphVAE
from torch_geometric_cgt.baselines.graph_vae import divergence
from torch_geometric_cgt.models import FitContext

LABELS = torch.arange(2000) % NUM_CLASSES


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def fit(num_steps):
    model = GraphVAE(
        NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS, 32, latent_channels=8, num_steps=num_steps, lr=0.01
    )
    return model, model.fit(toy_source(), FitContext(seed=0))


@pytest.fixture(scope='module')
def trained():
    return fit(120)


def test_the_bound_falls_and_samples_approach_the_source(trained):
    model, history = trained
    assert history['loss'][-1] < 0.7 * history['loss'][0]
    untrained = distance(fit(1)[0].sample(LABELS, rng()), LABELS)
    assert distance(model.sample(LABELS, rng()), LABELS) < min(0.1, untrained / 4)


def test_labels_decide(trained):
    tokens = trained[0].sample(LABELS, rng())
    root = tokens[:, 0]
    assert ((root >= 3) == (LABELS == 1)).float().mean() > 0.95
    real = (tokens < NUM_TOKENS).sum(dim=1).float()
    assert real[LABELS == 1].mean() > real[LABELS == 0].mean() + 3


def test_the_bound_is_below_the_log_likelihood(trained):
    """The likelihood is estimated by importance sampling with many latent vectors."""
    model = trained[0]
    tokens, y = toy_trees(10, seed=3)
    with torch.no_grad():
        bound = torch.stack([model.bound(tokens, y, rng(i)) for i in range(50)]).mean(dim=0)
        mean, log_std = model.encoder(tokens, y)
        posterior = torch.distributions.Normal(mean, log_std.exp())
        prior = torch.distributions.Normal(0.0, 1.0)
        torch.manual_seed(0)
        weights = []
        for _ in range(300):
            z = posterior.sample()
            ratio = (prior.log_prob(z) - posterior.log_prob(z)).sum(dim=1)
            weights.append(model.log_prob_given(z, tokens, y) + ratio)
        log_prob = torch.stack(weights).logsumexp(dim=0) - math.log(300)
    assert (bound <= log_prob + 0.1).all()
    assert (log_prob - bound).mean() < 2.0


def test_the_divergence_is_that_of_torch():
    mean, log_std = torch.randn(5, 3, generator=rng()), torch.randn(5, 3, generator=rng(1))
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, log_std.exp()), normal(0.0, 1.0))
    torch.testing.assert_close(divergence(mean, log_std), expected.sum(dim=1))


def test_null_slots_count_once():
    """With a decoder that ignores its input, the likelihood can be computed by hand."""
    model = GraphVAE(2, 1, [2, 1], 4, latent_channels=2)
    for module in (model.attached, model.token):
        torch.nn.init.zeros_(module.weight)
        torch.nn.init.zeros_(module.bias)
    # A root with a null child, whose child does not count, and a real one with a null child.
    tokens, y = torch.tensor([[0, 2, 1, 2, 2]]), torch.zeros(1, dtype=torch.long)
    found = model.log_prob_given(torch.zeros(1, 2), tokens, y)
    # Three slots are attached or not, two of them have a token out of two.
    torch.testing.assert_close(found.detach(), torch.tensor([5 * math.log(0.5)]))
