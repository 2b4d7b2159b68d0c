r"""Which computation graphs each step sees, and which part each process takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.nn.moving import Movable
from torch_geometric_cgt.nn.plan import Plan
from torch_geometric_cgt.training.config import FitConfig
from torch_geometric_cgt.training.distributed import World
from torch_geometric_cgt.utils.seeds import seeded

DRAW_BLOCK = 128  # roots per call of the sampler, a part of what a seed means

MARGINAL_ROOTS = 100_000  # enough for histograms
MAX_HOLDOUT = 20_000  # enough to see a likelihood fall

DrawTokens = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Batch(Movable):
    r"""Token trees with what they are conditioned on."""

    tokens: Tensor  # [B, T]
    y: Tensor  # [B]
    scene: Tensor  # [B]
    count: int  # tokens that carry likelihood; 0 if the batch only fills a gap
    plan: Plan | None  # what the model can know before its weights come in


def make_batch(generator: CGTGenerator, tokens: Tensor, y: Tensor, scene: Tensor) -> Batch:
    r"""Counts and plans what a batch holds, on the CPU."""
    count = int(generator.counted_slots(tokens).sum())
    return Batch(tokens, y, scene, count, generator.plan(tokens, y, scene))


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
        scene (torch.Tensor): The scene of every root.
        config (FitConfig): How to train.
        seed (int): The seed of everything that is drawn.
        world (World): The processes.
    """

    def __init__(
        self,
        generator: CGTGenerator,
        draw_tokens: DrawTokens,
        y: Tensor,
        scene: Tensor,
        config: FitConfig,
        seed: int,
        world: World,
    ) -> None:
        self.generator = generator
        self.draw_tokens = draw_tokens
        self.y = y
        self.scene = scene
        self.config = config
        self.seed = seed
        self.world = world
        perm = torch.randperm(y.numel(), generator=seeded(seed, 'holdout'))
        num_holdout = min(int(config.holdout * y.numel()), MAX_HOLDOUT)
        self.held_out, self.train = perm[:num_holdout], perm[num_holdout:]
        self.num_steps = math.ceil(self.train.numel() / config.batch_size)  # per epoch

    def held_out_batch(self) -> Batch:
        r"""The held-out roots, with trees that stay the same."""
        rows = self.held_out
        if rows.numel() == 0:
            return Batch(rows.view(0, 1), self.y[rows], self.scene[rows], 0, None)
        tokens = self._draw(rows, 0, rows.numel(), 'held-out trees')
        count = int(self.generator.counted_slots(tokens).sum())
        return Batch(tokens, self.y[rows], self.scene[rows], count, None)  # evaluated in parts

    def marginal_trees(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Trees of training roots that histograms are taken from, with labels and scenes."""
        rows = self.train[:MARGINAL_ROOTS]
        tokens = self._draw(rows, 0, rows.numel(), 'marginals')
        return tokens, self.y[rows], self.scene[rows]

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
        batch = make_batch(self.generator, tokens, self.y[root], self.scene[root])
        return replace(batch, count=0) if fills_gap else batch
