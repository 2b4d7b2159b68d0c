r"""Which computation graphs each step sees, and which part each process takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training.config import FitConfig
from torch_geometric_cgt.training.distributed import World
from torch_geometric_cgt.training.seeds import seeded

DRAW_BLOCK = 128  # roots per call of the sampler, a part of what a seed means

DrawTokens = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Batch:
    r"""Token trees with what they are conditioned on."""

    tokens: Tensor  # [B, T]
    y: Tensor  # [B]
    split: Tensor  # [B]
    count: int  # tokens that carry likelihood; 0 if the batch only fills a gap

    def to(self, device: torch.device) -> Batch:
        return Batch(self.tokens.to(device), self.y.to(device), self.split.to(device), self.count)


class Batches:
    r"""The batches of a fit: a pure function of seed, epoch and step.

    Trees are drawn anew in every epoch, in blocks of :obj:`DRAW_BLOCK` roots
    of the batch with a seed of their own. Neither the number of processes nor
    the accumulation nor a restart changes what is drawn.

    Args:
        generator (CGTGenerator): The model, which knows what it counts.
        draw_tokens (callable): Given indices of roots and a source of
            randomness, returns freshly sampled token trees, ``[n, T]``.
        y (torch.Tensor): The label of every root.
        split (torch.Tensor): The split code of every root.
        config (FitConfig): How to train.
        seed (int): The seed of everything that is drawn.
        world (World): The processes.
    """

    def __init__(
        self,
        generator: CGTGenerator,
        draw_tokens: DrawTokens,
        y: Tensor,
        split: Tensor,
        config: FitConfig,
        seed: int,
        world: World,
    ) -> None:
        self.generator = generator
        self.draw_tokens = draw_tokens
        self.y = y
        self.split = split
        self.config = config
        self.seed = seed
        self.world = world
        perm = torch.randperm(y.numel(), generator=seeded(seed, 'holdout'))
        num_holdout = int(config.holdout * y.numel())
        self.held_out, self.train = perm[:num_holdout], perm[num_holdout:]
        self.num_steps = math.ceil(self.train.numel() / config.batch_size)  # per epoch

    def held_out_batch(self) -> Batch:
        r"""The held-out roots, with trees that stay the same."""
        rows = self.held_out
        if rows.numel() == 0:
            return Batch(rows.view(0, 1), self.y[rows], self.split[rows], 0)
        return self._batch(rows, self._draw(rows, 0, rows.numel(), 'held-out trees'))

    def first_tree(self) -> Batch:
        r"""A batch of one tree, for a trial."""
        return self._batch(self.train[:1], self._draw(self.train[:1], 0, 1, 'trial'))

    def order(self, epoch: int) -> Tensor:
        r"""The training roots in the order of an epoch."""
        perm = torch.randperm(self.train.numel(), generator=seeded(self.seed, 'order', epoch))
        return self.train[perm]

    def parts(self, order: Tensor, epoch: int, step: int) -> list[Batch]:
        r"""The micro-batches of this process in one step, at least one.

        Args:
            order (torch.Tensor): What :meth:`order` gave for the epoch.
            epoch (int): The epoch.
            step (int): The step within the epoch.
        """
        size, world = self.config.batch_size, self.world
        rows = order[step * size : (step + 1) * size]  # of all processes
        begin, end = (rows.numel() * rank // world.size for rank in (world.rank, world.rank + 1))
        # A process without a row of the last batch still takes part in the sum.
        fills_gap = begin == end
        if fills_gap:
            begin, end = 0, 1
        tokens = self._draw(rows, begin, end, 'trees', epoch, step)
        micro = torch.arange(begin, end).tensor_split(self.config.accumulate)
        return [
            self._batch(rows[index], tokens[index - begin], fills_gap)
            for index in micro
            if index.numel()
        ]

    def _draw(self, rows: Tensor, begin: int, end: int, *purpose: int | str) -> Tensor:
        r"""Draws the trees of :obj:`rows[begin:end]`, as parts of whole blocks."""
        first = begin // DRAW_BLOCK
        blocks = [
            self.draw_tokens(
                rows[block * DRAW_BLOCK : (block + 1) * DRAW_BLOCK],
                seeded(self.seed, *purpose, block),
            )
            for block in range(first, math.ceil(end / DRAW_BLOCK))
        ]
        return torch.cat(blocks)[begin - first * DRAW_BLOCK : end - first * DRAW_BLOCK]

    def _batch(self, root: Tensor, tokens: Tensor, fills_gap: bool = False) -> Batch:
        count = 0 if fills_gap else int(self.generator.counted_slots(tokens).sum())
        return Batch(tokens, self.y[root], self.split[root], count)
