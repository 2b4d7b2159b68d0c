"""A tiny fit with early stopping and dropout, for tests that run it in other processes."""

import contextlib
import sys
import time
from pathlib import Path

import torch

from torch_geometric_cgt import CGTGenerator, FitConfig
from torch_geometric_cgt.errors import CGTError
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


class Killed(Exception):
    pass


def stop_after(steps):
    """A source of trees that ends the fit, as a kill would, at some step."""
    calls = []

    def draw_some(index, rng):
        calls.append(1)
        if len(calls) > steps + 2:  # the first two are for held-out trees and histograms
            raise Killed
        return draw(index, rng)

    return draw_some


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


def several(folder):
    """What the test of several processes compares with one process."""
    torch.set_num_threads(1)
    world = join_world()
    config = {'epochs': 10, 'patience': 100, 'holdout': 0.2, 'batch_size': 8}
    for accumulate in [1, 3]:
        steps = {**config, 'accumulate': accumulate, 'checkpoint_minutes': 5.0}
        run(None, folder / f'{accumulate}.pt', steps, 0.0, world)
    short = {'epochs': 3, 'checkpoint_minutes': 0}
    run(None, folder / 'whole.pt', short, world=world)
    with contextlib.suppress(Killed):
        fit(
            model(),
            stop_after(11),
            Y,
            FitConfig(**{**CONFIG, **short}),
            seed=3,
            log=False,
            checkpoint=folder / 'fit',
            world=world,
        )
    assert len(list((folder / 'fit').iterdir())) == 2
    run(folder / 'fit', folder / 'cut.pt', short, world=world)
    try:
        with world.together('paint the fence'):
            if not world.is_first:
                raise OSError('no brush')
        error = ''
    except CGTError as caught:
        error = str(caught)
    except OSError:
        error = 'mine'
    if world.is_first:
        torch.save({'error': error}, folder / 'rest.pt')
    messages(folder, world)
    leave_world()


def messages(folder, world):
    """What the processes send to each other, and how they end if the last one fails."""
    mine = torch.arange(world.rank, world.rank + 2 * world.size).view(-1, 2)  # one row for each
    rows, counts = world.exchange(mine, [1] * world.size)
    whole = world.concatenate(torch.full((world.rank + 1,), float(world.rank)))
    named = world.by_first(lambda: f'by {world.rank}')
    found = {'rows': rows, 'counts': counts, 'whole': whole, 'named': named}
    error, started = '', time.monotonic()
    try:
        with world.connected('cross the river'):
            if world.rank == 1:
                raise OSError('no bridge')
            if world.size > 1:
                world.sum(torch.zeros(1))  # waits for the process that failed
    except (CGTError, OSError) as caught:
        error = f'{type(caught).__name__}: {caught}'
    seconds = time.monotonic() - started
    while world.rank == 1 and not (folder / 'messages-0.pt').exists():
        time.sleep(0.1)  # this process fails, but does not end
        assert time.monotonic() - started < 40, 'the other process still waits for this one'
    torch.save({**found, 'error': error, 'seconds': seconds}, folder / f'messages-{world.rank}.pt')


if __name__ == '__main__':  # under torchrun
    several(Path(sys.argv[1]))
