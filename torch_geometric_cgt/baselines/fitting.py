r"""The training loop of neural generators, and the base class of those that learn from trees."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import NotFiniteError
from torch_geometric_cgt.models import FitContext, TreeModel, TreeSource
from torch_geometric_cgt.training.fit import warmup_cosine
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.distributed import fork_rng, seed_global
from torch_geometric_cgt.utils.progress import progress_bar
from torch_geometric_cgt.utils.seeds import derive_seed, seeded

CLIP = 1.0  # largest norm of a gradient
WARMUP = 0.05  # share of the steps in which the learning rate rises
HISTORY = 20  # entries of a history
MAX_VALUES = 1 << 24  # of the largest tensor of a batch: 64 MB

LossFn = Callable[[int, torch.Generator], Tensor]  # step and randomness to a scalar


def train(
    module: nn.Module, loss_fn: LossFn, num_steps: int, lr: float, context: FitContext
) -> dict[str, Any]:
    r"""Initialises a module by the seed of the context, and trains it with AdamW, a
    warm-up and a cosine decay of the learning rate.

    Args:
        module (torch.nn.Module): The module, which is moved to the device of the
            context and back to the CPU.
        loss_fn (callable): Returns the loss of a step.
        num_steps (int): The number of steps.
        lr (float): The largest learning rate.
        context (FitContext): Seed, device, limits and progress bar.

    Returns:
        The history: ``loss``, the mean loss of consecutive parts of the training,
        and ``num_steps``.
    """
    device = torch.device(context.device)
    size = max(1, math.ceil(num_steps / HISTORY))  # steps per entry of the history
    means: list[float] = []
    part: list[Tensor] = []  # losses stay on the device, so that a step does not wait for it
    with fork_rng(device), progress_bar(context.log, num_steps, 'fit', 'steps') as bar:
        seed_global(derive_seed(context.seed, 'weights'), device)
        reset_parameters(module)
        module.to(device).train()
        optimizer = torch.optim.AdamW(module.parameters(), lr=lr)
        for step in range(num_steps):
            context.limits.check()
            for group in optimizer.param_groups:
                group['lr'] = lr * warmup_cosine(step, num_steps, WARMUP)
            seed_global(derive_seed(context.seed, 'dropout', step), device)
            loss = loss_fn(step, seeded(context.seed, 'noise', step, device=device))
            part.append(_take_step(module, optimizer, loss))
            if len(part) == size or step + 1 == num_steps:
                means.append(_mean_loss(part, step + 1, num_steps, lr))
                part = []
            bar.update()
    module.eval().to('cpu')
    return {'loss': means, 'num_steps': num_steps}


def _take_step(module: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
    r"""Lowers the loss. Returns it on the device, because the host must not wait for it."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(module.parameters(), CLIP)
    optimizer.step()
    return loss.detach()


def _mean_loss(part: list[Tensor], step: int, num_steps: int, lr: float) -> float:
    r"""The mean of the last losses, up to a step. Raises an error if one is not finite."""
    losses = torch.stack(part).tolist()
    for i, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise NotFiniteError(
                f'The loss is not finite at step {step - len(losses) + i + 1} of {num_steps}: '
                f'lower the learning rate (got {lr:g})'
            )
    return sum(losses) / len(losses)


def reset_parameters(module: nn.Module) -> None:
    r"""Initialises all parameters of a module again: those of the inner modules
    first, so that an outer module can change them.
    """
    for part in reversed(list(module.modules())):
        reset = getattr(part, 'reset_parameters', None)
        if part is not module and callable(reset):
            reset()


class NeuralTreeModel(TreeModel):
    r"""A neural generator that is trained on newly sampled computation graphs in
    every step. A subclass implements :meth:`loss` and :meth:`draw`.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int): The size of hidden representations.
        num_steps (int): The number of training steps.
        batch_size (int): The number of trees of a step. It is lowered for large
            trees and vocabularies.
        lr (float): The largest learning rate.
    """

    is_fitted: Tensor

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int,
        num_steps: int,
        batch_size: int,
        lr: float,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.hidden_channels = hidden_channels
        self.num_steps = num_steps
        self.batch_size = batch_size
        self.lr = lr
        for name in ('hidden_channels', 'num_steps', 'batch_size', 'lr'):
            check_positive(name, getattr(self, name))
        self.register_buffer('is_fitted', torch.tensor(False))

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        names = ('hidden_channels', 'num_steps', 'batch_size', 'lr')
        return {**super().config(), **{name: getattr(self, name) for name in names}}

    @property
    def values_per_slot(self) -> int:
        r"""The number of values that a batch holds of each slot."""
        return self.num_tokens + self.hidden_channels

    @property
    def block_size(self) -> int:
        r"""The number of trees whose values fit into memory together."""
        return max(1, MAX_VALUES // (self.shape.num_slots * self.values_per_slot))

    @abstractmethod
    def loss(self, tokens: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        r"""The mean loss of a batch of trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator): The source of randomness.
        """

    @abstractmethod
    def draw(self, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws one token per slot, ``[B, T]``. Slots below a null slot may hold
        any token.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness.
        """

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Trains the model and returns the mean losses of the training."""
        context = context or FitContext()
        if len(source) == 0:
            raise ValueError('The source has no computation graphs to learn from')
        batches = TreeBatches(source, min(self.batch_size, self.block_size), context)

        def loss_fn(step: int, generator: torch.Generator) -> Tensor:
            return self.loss(*batches(step), generator)

        history = train(self, loss_fn, self.num_steps, self.lr, context)
        self.is_fitted.fill_(True)
        return history

    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``. Scenes are not used."""
        if not bool(self.is_fitted):
            raise ValueError('The model is not fitted: call fit() first')
        y = y.long().to(self.is_fitted.device)
        blocks = [y[:0].new_empty(0, self.shape.num_slots)]
        with torch.no_grad():
            blocks += [self.draw(block, generator) for block in y.split(self.block_size)]
        return mask_below_null(torch.cat(blocks), self.num_tokens, self.shape)


class TreeBatches:
    r"""The trees of each step: all roots in random order, then again in another.

    Args:
        source (TreeSource): The computation graphs.
        size (int): The number of trees of a step.
        context (FitContext): The seed and the device.
    """

    def __init__(self, source: TreeSource, size: int, context: FitContext) -> None:
        self.source, self.context = source, context
        self.size = min(size, len(source))
        self.num_batches = len(source) // self.size
        self.epoch, self.order = -1, torch.empty(0)

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        r"""Returns the tokens ``[B, T]`` and labels ``[B]`` of a step."""
        seed, device = self.context.seed, self.context.device
        epoch, batch = divmod(step, self.num_batches)
        if epoch != self.epoch:
            rng = seeded(seed, 'order', epoch)
            self.epoch, self.order = epoch, torch.randperm(len(self.source), generator=rng)
        root = self.order[batch * self.size : (batch + 1) * self.size]
        tokens = self.source.draw(root, seeded(seed, 'trees', step))
        return to_device(tokens.long(), device), to_device(self.source.y[root].long(), device)


def mask_below_null(tokens: Tensor, num_tokens: int, shape: TreeShape) -> Tensor:
    r"""Returns trees in which every slot below a null slot is null.

    Args:
        tokens (torch.Tensor): Token trees whose roots are not null, ``[B, T]``.
        num_tokens (int): The null token.
        shape (TreeShape): The geometry of the trees.
    """
    tokens = tokens.clone()
    parent = shape.parent.to(tokens.device)
    for layer in range(1, shape.depth + 1):
        slots = shape.layer_slice(layer)
        orphan = tokens[:, parent[slots]] == num_tokens
        tokens[:, slots] = tokens[:, slots].masked_fill(orphan, num_tokens)
    return tokens


def parent_is_real(tokens: Tensor, num_tokens: int, shape: TreeShape) -> Tensor:
    r"""Whether a slot can be real: it is the root, or its parent is real,
    ``[B, T]``.

    Args:
        tokens (torch.Tensor): Token trees, ``[B, T]``.
        num_tokens (int): The null token.
        shape (TreeShape): The geometry of the trees.
    """
    parent = to_device(shape.parent.clamp(min=0), tokens.device)
    possible = tokens[:, parent] != num_tokens
    possible[:, 0] = True
    return possible


def check_positive(name: str, value: float) -> None:
    r"""Raises an error for an argument that is not positive."""
    if not value > 0:
        raise ValueError(f"'{name}' must be positive (got {value})")
