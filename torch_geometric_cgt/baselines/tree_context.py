r"""What is known of a computation graph when its next slot is generated, as a vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape


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
