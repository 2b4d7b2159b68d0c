"""Steps of DP-SGD that a build keeps for its owner."""

import numpy as np
import pytest
import torch

from torch_geometric_cgt.privacy import SampledGaussian
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig, fit_privately
from torch_geometric_cgt.training.kept_steps import NUM_KEPT, KeptSteps

NUM_TREES, NUM_STEPS = 40, 30


def trained(num_steps=NUM_STEPS):
    """A short training, and the steps that it keeps."""
    torch.manual_seed(0)
    config = DPSGDConfig(hidden_channels=8)
    generator = config.make_generator(5, 2, [2], 2)
    tokens = torch.randint(5, (NUM_TREES, 3))
    y = torch.randint(2, (NUM_TREES,))
    noise = SampledGaussian(1.0, 0.3, num_steps)
    rng = np.random.default_rng(0)
    return generator, fit_privately(generator, tokens, y, y, noise, config, rng, log=False)


def test_the_first_and_the_last_step_are_kept_and_some_between():
    _, kept = trained()
    assert kept.step.numel() == NUM_KEPT
    assert (int(kept.step[0]), int(kept.step[-1])) == (0, NUM_STEPS - 1)
    assert (kept.step.diff() > 0).all()


def test_a_training_of_few_steps_keeps_all_of_them():
    _, kept = trained(3)
    assert kept.step.tolist() == [0, 1, 2]
    # Each step starts where the one before it ended.
    assert torch.equal(kept.after[:-1], kept.before[1:])
    assert not kept.moments[0].any() and kept.moments[1].any()


def test_all_weights_and_batches_are_kept():
    generator, kept = trained()
    size = sum(weight.numel() for weight in generator.parameters())
    assert kept.before.shape == kept.released.shape == kept.after.shape == (NUM_KEPT, size)
    assert kept.moments.shape == (NUM_KEPT, 2, size)
    assert kept.sizes.numel() == NUM_STEPS and kept.uses.numel() == NUM_TREES
    assert int(kept.sizes.sum()) == int(kept.uses.sum())
    assert [rows.numel() for rows in kept.batches()] == kept.sizes[kept.step].tolist()
    assert all((rows.diff() > 0).all() for rows in kept.batches())
    assert kept.rate[0] < kept.rate[-1]  # the learning rate rises at the beginning


def test_files_hold_everything():
    _, kept = trained()
    tensors = kept.to_tensors('step')
    again = KeptSteps.from_tensors({**tensors, 'other': torch.ones(1)}, 'step')
    assert all(torch.equal(getattr(again, name), value) for name, value in vars(kept).items())
    with pytest.raises(KeyError, match=r'step\.uses'):
        tensors.pop('step.uses')
        KeptSteps.from_tensors(tensors, 'step')
