r"""Facts of the card that need a computation graph of every root, measured by all processes."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.sampler import TreeDraws
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.progress import Log, progress_bar
from torch_geometric_cgt.utils.seeds import derive_seed

ENCODE_BLOCK = 1 << 16  # roots per block


def drawn_unique_share(
    draws: TreeDraws, y: Tensor, seed: int, world: World | None = None, log: Log = False
) -> float:
    r"""Samples one computation graph of each root, and returns the :meth:`unique_share`
    of roots. Each process draws some blocks. The result does not depend on the
    number of processes.

    Args:
        draws (TreeDraws): The computation graphs of all roots.
        y (torch.Tensor): The label of each root, ``[n]``.
        seed (int): The seed of the draws.
        world (World, optional): The processes. (default: one process)
        log (bool, optional): Whether to show progress. (default: :obj:`False`)
    """
    world = world or World()
    size = 1 + draws.shape.num_neighbors[0]  # the root and its child slots
    tokens, labels = [torch.empty(0, size, dtype=torch.int32)], [y[:0]]
    blocks = torch.arange(y.numel()).split(ENCODE_BLOCK)
    mine = range(world.rank, len(blocks), world.size)
    with progress_bar(log, sum(blocks[n].numel() for n in mine), 'encode', 'graphs') as bar:
        for number in mine:
            rng = torch.Generator().manual_seed(derive_seed(seed, number) if number else seed)
            tokens.append(draws.tokens(blocks[number], rng)[:, :size].int())
            labels.append(y[blocks[number]])
            bar.update(blocks[number].numel())
    return unique_share(torch.cat(labels), torch.cat(tokens), world)


def unique_share(y: Tensor, tokens: Tensor, world: World | None = None) -> float:
    r"""The share of roots that no other root equals in its label, its token and the
    tokens of its children.

    Args:
        y (torch.Tensor): The label of each root, ``[n]``.
        tokens (torch.Tensor): The token of each root and of its children,
            ``[n, 1 + fan_out]``.
        world (World, optional): The processes, if each of them has some of the
            roots. Equal roots meet in one process, which counts them.
            (default: :obj:`None`)
    """
    world = world or World()
    children = tokens[:, 1:].sort(dim=1).values
    rows = torch.cat([y[:, None].to(tokens.dtype), tokens[:, :1], children], dim=1)
    if world.size > 1:
        place = (rows.long() * torch.arange(1, 2 * rows.size(1), 2)).sum(dim=1) % world.size
        counts = torch.bincount(place, minlength=world.size).tolist()
        rows, _ = world.exchange(rows[place.argsort(stable=True)], counts)
    single = int((count_equal_rows(rows) == 1).sum())
    total, single = map(sum, zip(*world.gather((tokens.size(0), single)), strict=True))
    return round(single / max(1, total), 4)


def count_equal_rows(rows: Tensor) -> Tensor:
    r"""Counts each distinct row of non-negative integers. The columns are combined to one key
    per row, because sorting numbers is faster than sorting rows.
    """
    key = torch.zeros(rows.size(0), dtype=torch.long)
    if key.numel() == 0:
        return key
    for column in rows.long().t():
        key = key * (1 + column.max()) + column
        key = key.unique(return_inverse=True)[1]
    return torch.bincount(key)
