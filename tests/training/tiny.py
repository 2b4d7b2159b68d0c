"""A tiny fit with early stopping and dropout, for tests that run it in other processes."""

import sys

import torch

from torch_geometric_cgt import CGTGenerator, FitConfig
from torch_geometric_cgt.training import fit, join_world, leave_world

NUM_ROOTS = 90
Y = torch.arange(NUM_ROOTS) % 2
CONFIG = {'epochs': 4, 'batch_size': 16, 'lr': 5e-3, 'patience': 3, 'checkpoint_minutes': 0}


def model(dropout=0.2) -> CGTGenerator:
    torch.manual_seed(0)
    return CGTGenerator(
        4, 2, [2, 2], hidden_channels=16, num_layers=1, num_heads=2, dropout=dropout
    )


def draw(index, rng):
    """A rule for the root; else fixed noise, a fresh last slot and some nulls."""
    noise = torch.randint(4, (NUM_ROOTS, 7), generator=torch.Generator().manual_seed(0))
    tokens = noise[index]
    tokens[:, 0] = index % 2
    tokens[:, 6] = torch.randint(5, (index.numel(),), generator=rng)
    tokens[index % 3 == 0, 1] = 4  # null, and all below it
    tokens[index % 3 == 0, 3:5] = 4
    return tokens


def run(folder, out, config=None, dropout=0.2, world=None):
    """Fits with checkpoints in a folder and writes the final weights and the history."""
    torch.set_num_threads(1)
    generator = model(dropout)
    config = FitConfig(**{**CONFIG, **(config or {})})
    result = fit(generator, draw, Y, config, seed=3, log=False, checkpoint=folder, world=world)
    if world is None or world.is_first:
        state = {name: value.clone() for name, value in generator.state_dict().items()}
        torch.save({'weights': state, 'result': vars(result)}, out)
    return generator, result


if __name__ == '__main__':  # under torchrun
    steps = {'epochs': 10, 'patience': 100, 'checkpoint_minutes': 5.0}
    extra = {'accumulate': int(sys.argv[2])}
    run(None, sys.argv[1], {**steps, **extra}, dropout=0.0, world=join_world())
    leave_world()
