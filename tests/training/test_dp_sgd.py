"""DP-SGD: one tree is one record, and no record moves a step by more than the clipping norm."""

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule

from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.privacy import SampledGaussian
from torch_geometric_cgt.training import evaluate
from torch_geometric_cgt.training.dp_sgd import (
    DPSGDConfig,
    PerTreeLogProb,
    clip_per_tree,
    fit_privately,
    make_optimizer,
    noisy_step,
    sample_batch,
)

pytestmark = pytest.mark.filterwarnings('ignore:Full backward hook')
NUM_TOKENS, NUM_CLASSES, CLIP = 7, 3, 0.5


def model(num_neighbors=(3, 2), num_scenes=NUM_CLASSES):
    torch.manual_seed(0)
    config = DPSGDConfig(hidden_channels=16, num_layers=2)
    generator = config.make_generator(NUM_TOKENS, NUM_CLASSES, list(num_neighbors), num_scenes)
    with torch.no_grad():
        for weight in generator.parameters():  # large enough for gradients that differ
            weight.add_(0.3 * torch.randn(weight.shape))
    return generator


def trees(generator, size=8):
    """Drawn trees, and as the last one a tree without any null slot."""
    rng = torch.Generator().manual_seed(1)
    y = torch.randint(NUM_CLASSES, (size,), generator=rng)
    scene = torch.randint(NUM_CLASSES, (size,), generator=rng)
    tokens = generator.sample(y, rng, scene if generator.num_scenes else None)
    tokens[-1] = torch.randint(NUM_TOKENS, tokens[-1].shape, generator=rng)
    return tokens, y, scene


def gradients_one_by_one(rows, batch):
    found = []
    for i in range(len(batch[0])):
        rows.zero_grad()
        (-rows(*(value[i : i + 1] for value in batch))).sum().backward()
        found.append(torch.cat([w.grad.flatten() for w in rows.parameters()]))
    rows.zero_grad()
    return torch.stack(found)


def noisy_gradient(rows, batch, size=100, noise_multiplier=0.0):
    """What the optimiser makes of one batch, before Adam."""
    wrapped = clip_per_tree(rows, CLIP)
    still = torch.optim.SGD(rows.parameters(), lr=0.0)
    optimizer = make_optimizer(still, noise_multiplier, CLIP, np.random.default_rng(0))
    noisy_step(wrapped, optimizer, batch, torch.arange(len(batch[0])), size)
    found = torch.cat([w.grad.flatten() for w in rows.parameters()])
    wrapped.to_standard_module()
    return found


@pytest.mark.parametrize('num_neighbors', [(3, 2), (2, 2, 2)])
@pytest.mark.parametrize('num_scenes', [0, NUM_CLASSES])
def test_rows_are_the_likelihood_of_the_generator(num_neighbors, num_scenes):
    generator = model(num_neighbors, num_scenes)
    tokens, y, scene = trees(generator)
    scene = scene if num_scenes else None
    found = PerTreeLogProb(generator)(tokens, y, scene)
    assert torch.allclose(found, generator.log_prob(tokens, y, scene), atol=1e-4)


@pytest.mark.parametrize('num_neighbors', [(3, 2), (2, 2, 2)])
def test_gradients_per_record_are_those_of_a_loop(num_neighbors):
    generator = model(num_neighbors)
    rows, batch = PerTreeLogProb(generator), trees(generator)
    expected = gradients_one_by_one(rows, batch)
    wrapped = GradSampleModule(rows, loss_reduction='sum')
    (-wrapped(*batch)).sum().backward()
    found = torch.cat([w.grad_sample.flatten(1) for w in wrapped.parameters()], dim=1)
    assert torch.allclose(found, expected, atol=1e-4)
    assert (expected.norm(dim=1) > 2 * CLIP).all()  # clipping has something to do


@pytest.mark.parametrize('size', [100, 3])
def test_a_step_is_the_sum_of_clipped_gradients_of_trees(size):
    generator = model()
    rows, batch = PerTreeLogProb(generator), trees(generator)
    each = gradients_one_by_one(rows, batch)
    expected = (each * (CLIP / each.norm(dim=1, keepdim=True)).clamp(max=1)).sum(dim=0)
    assert torch.allclose(noisy_gradient(rows, batch, size), expected, atol=1e-5)


@pytest.mark.parametrize('num_neighbors', [(3, 2), (2, 2, 2)])
def test_no_record_moves_the_sum_by_more_than_the_clipping_norm(num_neighbors):
    generator = model(num_neighbors)
    rows, batch = PerTreeLogProb(generator), trees(generator)
    everything = noisy_gradient(rows, batch)
    for i in range(len(batch[0])):  # the last one has no null slot
        keep = torch.arange(len(batch[0])) != i
        without = noisy_gradient(rows, [value[keep] for value in batch])
        assert (everything - without).norm() <= CLIP * 1.0001


def test_noise_is_as_wide_as_the_ledger_says_also_without_a_record():
    rows = PerTreeLogProb(model())
    nothing = [torch.zeros(0, 10, dtype=torch.long), *2 * [torch.zeros(0, dtype=torch.long)]]
    noise = noisy_gradient(rows, nothing, noise_multiplier=3.0)
    assert noise.numel() > 5_000
    assert abs(float(noise.std()) / (3.0 * CLIP) - 1) < 0.05


def test_batches_are_drawn_record_by_record():
    rng = np.random.default_rng(0)
    drawn = [sample_batch(1000, 0.1, rng) for _ in range(200)]
    sizes = torch.tensor([float(len(rows)) for rows in drawn])
    assert abs(float(sizes.mean()) - 100) < 3 and 7 < float(sizes.std()) < 12
    count = torch.bincount(torch.cat(drawn), minlength=1000)
    assert count.min() > 0 and count.max() < 50


def test_it_learns_what_there_is_to_learn():
    truth = model()
    y = torch.arange(600) % NUM_CLASSES
    rng = torch.Generator().manual_seed(0)
    tokens = truth.sample(y, rng, y)
    config = DPSGDConfig(hidden_channels=16, epochs=20.0, batch_size=100, lr=0.02)
    torch.manual_seed(1)
    student = config.make_generator(NUM_TOKENS, NUM_CLASSES, [3, 2], NUM_CLASSES)
    before = evaluate(student, tokens, y, y)
    noise = config.noise(600, noise_multiplier=0.5)
    assert noise == SampledGaussian(0.5, 1 / 6, 120)
    fit_privately(student, tokens, y, y, noise, config, np.random.default_rng(0), log=False)
    best = evaluate(truth, tokens, y, y)
    assert evaluate(student, tokens, y, y) < best + 0.5 * (before - best)


def test_models_that_cannot_be_clipped_tree_by_tree_are_refused():
    with pytest.raises(ValueError, match="siblings='typed'"):
        PerTreeLogProb(CGTGenerator(NUM_TOKENS, NUM_CLASSES, [3, 2]))
    slots = CGTGenerator(
        NUM_TOKENS, NUM_CLASSES, [3, 2], siblings='independent', vocabulary='flat', position='slot'
    )
    with pytest.raises(ValueError, match="position='slot'"):
        PerTreeLogProb(slots)
    with pytest.raises(ValueError, match="'clip' must be positive"):
        DPSGDConfig(clip=0.0)
