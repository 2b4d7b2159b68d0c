"""GraphAF: its maps invert, its density is exact, and its trees approach the toy set."""

import math
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
from torch_geometric_cgt.baselines import GraphAF
from torch_geometric_cgt.baselines.graph_af import AffineFlow
from torch_geometric_cgt.models import FitContext

LABELS = torch.arange(2000) % NUM_CLASSES


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def make_flow(num_dims):
    torch.manual_seed(0)
    flow = AffineFlow(num_dims, 6).double()
    for parameter in flow.parameters():
        torch.nn.init.normal_(parameter)
    return flow, torch.randn(8, 6, dtype=torch.double), torch.randn(8, num_dims).double()


@pytest.mark.parametrize('num_dims', [1, 2, 5])
def test_the_flow_inverts(num_dims):
    flow, context, z = make_flow(num_dims)
    x, log_det = flow(z, context)
    again, inverse_log_det = flow.inverse(x, context)
    torch.testing.assert_close(again, z)
    torch.testing.assert_close(inverse_log_det, -log_det)
    torch.testing.assert_close(flow(again, context)[0], x)


@pytest.mark.parametrize('num_dims', [1, 2, 5])
@pytest.mark.parametrize('direction', ['forward', 'inverse'])
def test_log_determinants_are_those_of_autograd(num_dims, direction):
    flow, context, z = make_flow(num_dims)
    z = z if direction == 'forward' else flow(z, context)[0].detach()
    function = getattr(flow, direction)
    for i in range(len(z)):
        one = context[i : i + 1]
        jacobian = torch.autograd.functional.jacobian(
            lambda v, one=one: function(v[None], one)[0][0], z[i]
        )
        expected = torch.linalg.slogdet(jacobian).logabsdet
        torch.testing.assert_close(function(z[i : i + 1], one)[1][0], expected)


def test_the_density_integrates_to_one():
    flow, context, _ = make_flow(2)
    line = torch.linspace(-40, 40, 801, dtype=torch.double)
    grid = torch.cartesian_prod(line, line)
    flow.out.weight.data.mul_(0.3)  # scales that the grid can resolve
    with torch.no_grad():
        density = flow.log_density(grid, context[:1].expand(len(grid), -1)).exp()
    assert abs(float(density.sum()) * 0.1**2 - 1) < 0.02


@pytest.mark.parametrize('noise', [0.25, 1.0])
def test_the_score_is_a_bound_of_the_likelihood(noise):
    """The probability of a sign is a Gaussian tail, so that the likelihood can be enumerated, and
    so can be the mean of the score over codes and uniform noise."""
    torch.manual_seed(0)
    model = GraphAF(3, 1, [1], 6, noise=noise)
    torch.nn.init.normal_(model.token.before.weight)
    context = torch.randn(1, 6)
    probability, mean_score = torch.zeros(3), torch.zeros(3)
    with torch.no_grad():
        for signs in product([-1.0, 1.0], repeat=2):
            x = torch.tensor([signs])
            mean, log_scale = model.token.parameters_of(x, context)
            normal = torch.distributions.Normal(mean, log_scale.exp())
            spread = (noise**2 / 3) / (2 * log_scale.exp() ** 2)
            score = (normal.log_prob(x) - spread + math.log(2 * noise)).sum()
            token = model.codes.decode(x)
            codes = 1 + int(token == 0)  # four codes, three tokens
            probability[token] += torch.where(
                x > 0, 1 - normal.cdf(x * 0), normal.cdf(x * 0)
            ).prod()
            mean_score[token] += (score + math.log(codes)) / codes
        many = context.expand(10_000, -1)
        slot = torch.zeros(10_000, dtype=torch.long)
        for token in range(3):
            scores = model.score_token(slot + token, slot, slot, many, rng())
            assert abs(scores.mean() - mean_score[token]) < 0.1
        drawn = torch.bincount(model.draw_token(slot, slot, many, rng()), minlength=3) / 10_000
    torch.testing.assert_close(probability.sum(), torch.tensor(1.0))
    assert (mean_score < probability.log()).all()
    assert (drawn - probability).abs().max() < 0.02


def fit(num_steps):
    model = GraphAF(NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS, 32, num_steps=num_steps, lr=0.02)
    return model, model.fit(toy_source(), FitContext(seed=0))


@pytest.fixture(scope='module')
def trained():
    return fit(150)


def test_the_loss_falls_and_samples_approach_the_source(trained):
    model, history = trained
    assert history['loss'][-1] < 0.7 * history['loss'][0]
    untrained = distance(fit(1)[0].sample(LABELS, rng()), LABELS)
    assert distance(model.sample(LABELS, rng()), LABELS) < min(0.1, untrained / 3)


def test_labels_and_parents_decide(trained):
    tokens = trained[0].sample(LABELS, rng())
    assert ((tokens[:, 0] >= 3) == (LABELS == 1)).float().mean() > 0.95
    # Without parents, one of three children would have the token of its parent.
    assert share_of_copies(tokens) > 0.6


def test_noise_stays_in_its_cell():
    with pytest.raises(ValueError, match="'noise' must be at most 1"):
        GraphAF(3, 1, [1], noise=1.5)
