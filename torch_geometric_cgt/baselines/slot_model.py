r"""Generators that draw a computation graph slot by slot: base class, and context of a slot."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.baselines.fitting import NeuralTreeModel, parent_is_real
from torch_geometric_cgt.data import TreeShape


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


class TreeContext(nn.Module):
    r"""A relational graph neural network over the part of a computation graph that
    is already generated. Slots are generated in breadth-first order.

    The state of a slot depends on its token, on the label, and on earlier slots.
    The context of a slot depends on the label and on the states of earlier slots,
    and not on its own token. Each relation has its own weights: every ancestor by
    its distance, the earlier children of the same parent, and all earlier slots.
    Several slots of one relation are averaged.

    A state never depends on later slots, so that training computes all contexts at
    once, and sampling computes each state once.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        channels (int): The size of states and contexts.
    """

    relation: Tensor  # [R, T, T] weights of earlier slots

    def __init__(self, num_tokens: int, num_classes: int, shape: TreeShape, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.token = nn.Embedding(num_tokens + 1, channels)
        self.slot = nn.Embedding(shape.num_slots, channels)
        self.label = nn.Embedding(num_classes, channels)
        self.register_buffer('relation', relations(shape), persistent=False)
        width = (self.relation.size(0) + 1) * channels
        self.lin_state = nn.Linear(width + channels, channels)
        self.lin_context = nn.Linear(width, channels)

    def forward(self, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The context of every slot of complete trees, ``[B, T, channels]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
        """
        token = self.token(tokens)
        place = self.label(y)[:, None] + self.slot.weight
        state = self.state(token, self.gather(token, self.relation), place)
        return self.context(self.gather(state, self.relation), place)

    def state(self, token: Tensor, earlier: Tensor, place: Tensor) -> Tensor:
        return F.relu(self.lin_state(torch.cat([token, earlier, place], dim=-1)))

    def context(self, earlier: Tensor, place: Tensor) -> Tensor:
        return F.relu(self.lin_context(torch.cat([earlier, place], dim=-1)))

    def gather(self, x: Tensor, weight: Tensor) -> Tensor:
        r"""Averages earlier slots by relation, ``[B, S, R * channels]``.

        Args:
            x (torch.Tensor): One vector per earlier slot, ``[B, T, channels]``.
            weight (torch.Tensor): Weights of these slots, ``[R, S, T]``.
        """
        size = weight.size(1)
        out = weight.flatten(0, 1) @ x  # [B, R * S, channels]
        return out.unflatten(1, (-1, size)).transpose(1, 2).flatten(2)


class TreeWalk:
    r"""The contexts of trees that are generated slot by slot.

    Args:
        module (TreeContext): The network.
        y (torch.Tensor): The label of each root, ``[B]``.
    """

    def __init__(self, module: TreeContext, y: Tensor) -> None:
        self.module = module
        self.place = module.label(y)[:, None] + module.slot.weight
        self.token = torch.zeros_like(self.place)
        self.state = torch.zeros_like(self.place)

    def context(self, slot: int) -> Tensor:
        r"""The context of the next slot, ``[B, channels]``."""
        here = slice(slot, slot + 1)
        weight = self.module.relation[:, here, :slot]
        earlier = self.module.gather(self.state[:, :slot], weight)
        return self.module.context(earlier, self.place[:, here])[:, 0]

    def add(self, slot: int, tokens: Tensor) -> None:
        r"""Sets the tokens of the next slot, ``[B]``."""
        here = slice(slot, slot + 1)
        weight = self.module.relation[:, here, :slot]
        self.token[:, slot] = self.module.token(tokens)
        earlier = self.module.gather(self.token[:, :slot], weight)
        state = self.module.state(self.token[:, here], earlier, self.place[:, here])
        self.state[:, slot] = state[:, 0]


def relations(shape: TreeShape) -> Tensor:
    r"""The weights of earlier slots, by relation, ``[R, T, T]``: row :math:`i` holds
    those for slot :math:`i`.

    Args:
        shape (TreeShape): The geometry of the trees.
    """
    earlier = torch.ones(shape.num_slots, shape.num_slots, device='cpu').tril(-1)
    distance = shape.layer[:, None] - shape.layer
    ancestors = [(shape.is_ancestor & (distance == d)).float() for d in range(1, shape.depth + 1)]
    siblings = earlier * (shape.parent[:, None] == shape.parent)
    masks = torch.stack([*ancestors, siblings, earlier])
    return masks / masks.sum(dim=2, keepdim=True).clamp(min=1)
