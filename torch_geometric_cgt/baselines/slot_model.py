r"""The base class of generators that draw a computation graph slot by slot."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.fitting import NeuralTreeModel, parent_is_real
from torch_geometric_cgt.baselines.tree_context import TreeContext, TreeWalk


class SlotModel(NeuralTreeModel):
    r"""Generates the slots of a tree in breadth-first order. Of each slot whose parent
    is real, it first generates whether the slot is attached to its parent, and then
    its token. Both depend on the label and on the part that is already generated
    (:class:`TreeContext`). The other slots are null.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int): The size of hidden representations.
        num_steps (int): The number of training steps.
        batch_size (int): The number of trees of a step.
        lr (float): The largest learning rate.
    """

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
        super().__init__(
            num_tokens, num_classes, num_neighbors, hidden_channels, num_steps, batch_size, lr
        )
        self.context = TreeContext(num_tokens, num_classes, self.shape, hidden_channels)

    @abstractmethod
    def score_attached(
        self, real: Tensor, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""The log-likelihood, or a bound of it, that slots are attached or not,
        ``[n]``.

        Args:
            real (torch.Tensor): Whether each slot is attached, ``[n]``.
            y (torch.Tensor): The label of its tree, ``[n]``.
            slot (torch.Tensor): Its number, ``[n]``.
            context (torch.Tensor): What is known before, ``[n, hidden_channels]``.
            rng (torch.Generator, optional): The source of randomness.
        """

    @abstractmethod
    def score_token(
        self, token: Tensor, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""The log-likelihood, or a bound of it, of the tokens of real slots, ``[n]``."""

    @abstractmethod
    def draw_attached(
        self, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""Draws whether slots are attached, ``[n]``."""

    @abstractmethod
    def draw_token(
        self, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""Draws the tokens of real slots, ``[n]``."""

    def loss(self, tokens: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        r"""The mean negative score, in nats per tree."""
        return self.score(tokens, y, generator).neg().mean()

    def score(self, tokens: Tensor, y: Tensor, rng: torch.Generator | None = None) -> Tensor:
        r"""The log-likelihood of token trees, or a bound of it, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            rng (torch.Generator, optional): The source of randomness.
                (default: :obj:`None`)
        """
        context = self.context(tokens, y)
        real = tokens != self.num_tokens
        possible = parent_is_real(tokens, self.num_tokens, self.shape)
        possible[:, 0] = False  # a root is always real
        out = torch.zeros(y.numel(), device=y.device)
        for score, values, where in (
            (self.score_attached, real, possible),
            (self.score_token, tokens, real),
        ):
            at = tree, slot = where.nonzero(as_tuple=True)  # the host waits once, here
            out = out.index_add(0, tree, score(values[at], y[tree], slot, context[at], rng))
        return out

    def draw(self, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws trees slot by slot."""
        size = (y.numel(), self.shape.num_slots)
        tokens = torch.full(size, self.num_tokens, device=y.device)
        walk = TreeWalk(self.context, y)
        for number, parent in enumerate(self.shape.parent.tolist()):
            context, slot = walk.context(number), torch.full_like(y, number)
            real = torch.ones_like(y, dtype=torch.bool)
            if parent >= 0:
                attached = self.draw_attached(y, slot, context, generator)
                real = attached & (tokens[:, parent] != self.num_tokens)
            drawn = self.draw_token(y[real], slot[real], context[real], generator)
            tokens[real, number] = drawn
            walk.add(number, tokens[:, number])
        return tokens
