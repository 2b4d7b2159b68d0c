import pytest
import torch

from tests.helpers.tiny import model
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.training import World
from torch_geometric_cgt.training.batches import DRAW_BLOCK, Batches

NUM_ROOTS = 611
Y = torch.arange(NUM_ROOTS) % 2
SPLIT = torch.arange(NUM_ROOTS) % 3


def draw(index, rng):
    return torch.randint(5, (index.numel(), 7), generator=rng)


def batches(size=1, rank=0, accumulate=1, seed=0, **changes) -> Batches:
    config = FitConfig(**{'batch_size': 300, 'accumulate': accumulate, **changes})
    return Batches(model(), draw, Y, SPLIT, config, seed, World(rank, size))


def step(some: Batches, epoch: int, step: int) -> list:
    return some.parts(some.order(epoch), epoch, step)


@pytest.mark.parametrize('size, accumulate', [(1, 1), (1, 7), (2, 1), (3, 2), (8, 1)])
def test_processes_and_micro_batches_share_one_batch(size, accumulate):
    for which in [0, 1]:
        (whole,) = step(batches(), 2, which)
        parts = [p for r in range(size) for p in step(batches(size, r, accumulate), 2, which)]
        for name in ['tokens', 'y', 'scene']:
            assert torch.equal(torch.cat([vars(p)[name] for p in parts]), vars(whole)[name])
        assert sum(part.count for part in parts) == whole.count > 2 * DRAW_BLOCK


def test_a_process_without_rows_fills_the_gap():
    some = batches(4, 0, batch_size=547)  # 550 roots: the last step has 3 of them
    counts = [step(batches(4, rank, batch_size=547), 0, 1)[0].count for rank in range(4)]
    (gap,) = step(some, 0, 1)
    assert some.num_steps == 2 and counts[0] == 0 < min(counts[1:]) and gap.tokens.size(0) == 1


def test_only_the_blocks_of_a_process_are_drawn():
    drawn = []
    some = batches(size=3, rank=2)
    some.draw_tokens = lambda index, rng: drawn.append(index.numel()) or draw(index, rng)
    step(some, 0, 0)
    assert drawn == [128, 300 - 256]  # rows 200 to 299 lie in the last two of three blocks


def test_draws_depend_on_seed_epoch_and_step_alone():
    some = batches()
    first = step(some, 0, 0)[0].tokens
    assert torch.equal(step(batches(), 0, 0)[0].tokens, first)
    for other in [step(some, 1, 0), step(some, 0, 1), step(batches(seed=1), 0, 0)]:
        rows = min(len(first), len(other[0].tokens))
        assert not torch.equal(other[0].tokens[:rows], first[:rows])
    assert torch.equal(
        some.held_out_batch().tokens, batches(size=2, rank=1).held_out_batch().tokens
    )
