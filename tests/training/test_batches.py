import pytest
import torch

from tests.helpers.tiny import model
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.training import World
from torch_geometric_cgt.training.batches import DRAW_BLOCK, Batch, Batches, planned_steps

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


@pytest.mark.parametrize('changes', [{}, {'accumulate': 3}, {'size': 2, 'rank': 1}])
@pytest.mark.parametrize('first', [0, 1])
def test_workers_plan_the_same_batches_in_the_same_order(changes, first):
    def tensors(num_workers):
        some = batches(batch_size=100, num_workers=num_workers, **changes)
        found = []
        for parts in planned_steps(some, some.order(2), 2, first):
            found.append([])
            for part in parts:
                part.map(torch.Tensor, found[-1].append)
                assert isinstance(part, Batch) and part.count > 0 and part.plan is not None
        return found

    state = torch.get_rng_state()
    alone, *shared = (tensors(num_workers) for num_workers in (0, 1, 3))
    assert torch.equal(torch.get_rng_state(), state)
    assert len(alone) == 6 - first and len(alone[0]) > 20
    for others in shared:
        for one, other in zip(alone, others, strict=True):
            assert [a.dtype for a in one] == [a.dtype for a in other]
            assert all(map(torch.equal, one, other))


def test_an_error_in_a_worker_is_an_error_of_the_fit():
    some = batches(num_workers=2)

    def failing(index, rng):
        raise ValueError('no trees today')

    some.draw_tokens = failing
    with pytest.raises(ValueError, match='no trees today'):
        next(planned_steps(some, some.order(0), 0))
