r"""The batches of a fit: the computation graphs of each step and process, and who prepares them."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.nn.batch_plan import BatchPlan, TensorDataclass
from torch_geometric_cgt.training.config import FitConfig
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.seeds import seeded

DRAW_BLOCK = 128  # roots per call of the sampler; another size gives other trees for a seed
MARGINAL_ROOTS = 100_000  # roots that suffice for histograms
MAX_HOLDOUT = 20_000  # roots that suffice to see the held-out likelihood fall

DrawTokens = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Batch(TensorDataclass):
    r"""Token trees with labels and scenes, ready for the model."""

    tokens: Tensor  # [B, T]
    y: Tensor  # [B]
    scene: Tensor  # [B]
    count: int  # tokens that count in the loss; 0 if the process has no rows in this step
    plan: BatchPlan | None  # the part of the computation that needs no weights


def make_batch(generator: CGTGenerator, tokens: Tensor, y: Tensor, scene: Tensor) -> Batch:
    r"""Makes a batch on the CPU: counts its tokens and plans its evaluation."""
    count = int(generator.counted_slots(tokens).sum())
    return Batch(tokens, y, scene, count, generator.plan(tokens, y, scene))


class Batches:
    r"""The batches of a fit, as a pure function of seed, epoch and step.

    Trees are resampled in every epoch, in blocks of :obj:`DRAW_BLOCK` roots.
    Each block has its own seed, so the trees depend neither on the number of
    processes, nor on gradient accumulation, nor on restarts.

    Args:
        generator (CGTGenerator): The model, which counts and plans the trees.
        draw_tokens (callable): Given indices of roots ``[n]`` and a
            :class:`torch.Generator`, samples their token trees, ``[n, T]``.
        y (torch.Tensor): The label of every root.
        scene (torch.Tensor): The scene of every root.
        config (FitConfig): How to train.
        seed (int): The seed of all samples.
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
        r"""The held-out roots, with the same trees in every epoch."""
        rows = self.held_out
        if rows.numel() == 0:
            return Batch(rows.view(0, 1), self.y[rows], self.scene[rows], 0, None)
        tokens = self._draw(rows, 0, rows.numel(), 'held-out trees')
        count = int(self.generator.counted_slots(tokens).sum())
        return Batch(tokens, self.y[rows], self.scene[rows], count, None)  # planned in parts

    def marginal_trees(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""The trees of training roots for the initial histograms, with labels
        and scenes.
        """
        rows = self.train[:MARGINAL_ROOTS]
        tokens = self._draw(rows, 0, rows.numel(), 'marginals')
        return tokens, self.y[rows], self.scene[rows]

    def first_tree(self) -> Batch:
        r"""A batch of one tree, for a trial run of the model."""
        return self._batch(self.train[:1], self._draw(self.train[:1], 0, 1, 'trial'))

    def order(self, epoch: int) -> Tensor:
        r"""The training roots in the order of an epoch."""
        perm = torch.randperm(self.train.numel(), generator=seeded(self.seed, 'order', epoch))
        return self.train[perm]

    def parts(self, order: Tensor, epoch: int, step: int) -> list[Batch]:
        r"""The micro-batches of this process in one step, at least one.

        Args:
            order (torch.Tensor): What :meth:`order` returned for the epoch.
            epoch (int): The epoch.
            step (int): The step within the epoch.
        """
        size, world = self.config.batch_size, self.world
        rows = order[step * size : (step + 1) * size]  # of all processes
        begin, end = (rows.numel() * rank // world.size for rank in (world.rank, world.rank + 1))
        # A process without rows in a short last batch still takes part in the exchange of
        # gradients, with one row that does not count.
        is_filler = begin == end
        if is_filler:
            begin, end = 0, 1
        tokens = self._draw(rows, begin, end, 'trees', epoch, step)
        micro = torch.arange(begin, end).tensor_split(self.config.accumulate)
        return [
            self._batch(rows[index], tokens[index - begin], is_filler)
            for index in micro
            if index.numel()
        ]

    def _draw(self, rows: Tensor, begin: int, end: int, *purpose: int | str) -> Tensor:
        r"""Samples the trees of :obj:`rows[begin:end]`, block by block."""
        first = begin // DRAW_BLOCK
        blocks = [
            self.draw_tokens(
                rows[block * DRAW_BLOCK : (block + 1) * DRAW_BLOCK],
                seeded(self.seed, *purpose, block),
            )
            for block in range(first, math.ceil(end / DRAW_BLOCK))
        ]
        return torch.cat(blocks)[begin - first * DRAW_BLOCK : end - first * DRAW_BLOCK]

    def _batch(self, root: Tensor, tokens: Tensor, is_filler: bool = False) -> Batch:
        batch = make_batch(self.generator, tokens, self.y[root], self.scene[root])
        return replace(batch, count=0) if is_filler else batch


def batch_loss(model: nn.Module, batch: Batch) -> Tensor:
    r"""The mean negative log-likelihood per counted token of a batch.

    Args:
        model (torch.nn.Module): The generator, or a compiled or distributed
            wrapper of it.
        batch (Batch): Token trees, on the device of the model.
    """
    return model(batch.tokens, batch.y, batch.scene, batch.plan)


@torch.no_grad()
def evaluate(
    generator: CGTGenerator,
    tokens: Tensor,
    y: Tensor,
    scene: Tensor | None = None,
    batch_size: int = 512,
    world: World | None = None,
) -> float:
    r"""The mean negative log-likelihood per counted token of some trees.

    Args:
        generator (CGTGenerator): The model; it is left in evaluation mode.
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        y (torch.Tensor): The labels of the roots, ``[n]``.
        scene (torch.Tensor, optional): The scenes of the roots, ``[n]``.
            (default: :obj:`None`)
        batch_size (int, optional): Trees per batch. (default: :obj:`512`)
        world (World, optional): Processes that share the work; all of them
            must pass all trees. (default: :obj:`None`)
    """
    world = world or World()
    generator.eval()
    device = next(generator.parameters()).device
    if scene is None:
        scene = torch.zeros_like(y)
    log_prob = torch.zeros(y.numel(), device=device)
    for start in range(world.rank * batch_size, y.numel(), world.size * batch_size):
        rows = slice(start, start + batch_size)
        part = make_batch(generator, tokens[rows], y[rows], scene[rows]).to(device)
        values = generator.log_prob(part.tokens, part.y, part.scene, part.plan)
        log_prob[rows] = values.float()
    # The order of the sum does not depend on the number of processes.
    total = world.sum(log_prob).cpu().double().sum()
    return -float(total) / int(generator.counted_slots(tokens).sum())


class _Steps(Dataset):
    r"""The batches of the steps of an epoch. A batch travels as bytes: as tensors in shared
    memory, its parts would need dozens of open files.
    """

    def __init__(self, batches: Batches, order: Tensor, epoch: int) -> None:
        self.batches, self.order, self.epoch = batches, order, epoch

    def __getitem__(self, step: int) -> bytes:
        parts = self.batches.parts(self.order, self.epoch, step)
        return pickle.dumps([part.map(Tensor, Tensor.numpy) for part in parts], protocol=5)


def planned_steps(
    batches: Batches, order: Tensor, epoch: int, first: int = 0
) -> Iterator[list[Batch]]:
    r"""The micro-batches of this process in each step of an epoch. With
    :obj:`FitConfig(num_workers=...)`, worker processes make them in advance.
    Batches are a pure function of seed, epoch and step, so that they are the same
    for any number of workers.

    Args:
        batches (Batches): The batches of the fit.
        order (torch.Tensor): What :meth:`Batches.order` returned for the epoch.
        epoch (int): The epoch.
        first (int, optional): The first step. (default: :obj:`0`)
    """
    steps = range(first, batches.num_steps)
    workers = min(batches.config.num_workers, len(steps))
    if workers == 0:
        for step in steps:
            yield batches.parts(order, epoch, step)
        return
    loader = DataLoader(
        _Steps(batches, order, epoch),
        batch_size=None,
        sampler=steps,
        num_workers=workers,
        multiprocessing_context='fork',
        generator=torch.Generator(),  # leaves the global state of randomness alone
    )
    for content in loader:
        parts = pickle.loads(content)  # by a worker of this process
        yield [part.map(np.ndarray, torch.from_numpy) for part in parts]
