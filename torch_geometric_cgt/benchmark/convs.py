r"""Message passing from the children of a slot to the slot, as dense operations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.rows import Rows, linear


class TreeConv(nn.Module):
    r"""One message-passing step from the children of a slot to the slot.

    The part that is linear in the input comes first, in :meth:`project`, and
    the aggregation second: for the first layer, the projection then runs on
    the distinct rows of a batch and not on every slot.
    """

    def project(self, x: Rows) -> Tensor:
        r"""Maps features ``[..., F]`` to channels ``[..., H]``."""
        raise TypeError(f'{type(self).__name__} must define project()')

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        r"""Joins projected children with their projected parents.

        Args:
            h (torch.Tensor): The parents, ``[B, P, H]``.
            children (torch.Tensor): The children, ``[B, P, f, H]``.
            weight (torch.Tensor): The weight of each parent and of its
                children, ``[B, P, 1 + f, 1]``: whether it is real, or what a
                sampler gave to it; zero where it is null or was not drawn.
        """
        raise TypeError(f'{type(self).__name__} must define aggregate()')

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        r"""What follows the aggregation, for all slots of all layers.

        Args:
            h (torch.Tensor): The slots, ``[B, P, H]``.
            real (torch.Tensor): Which of them are real, ``[B, P]``.
        """
        return h


class MeanConv(TreeConv):
    r"""The mean of a node and its neighbours (GCN)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        return mean_of(h, children, weight) + self.bias


class PlainMeanConv(TreeConv):
    r"""The mean of a node and its neighbours, with nothing to learn (SGC)."""

    def project(self, x: Rows) -> Tensor:
        return torch.as_tensor(x)  # it never comes first: always channels

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        return mean_of(h, children, weight)


class DrawnMeanConv(MeanConv):
    r"""An estimate of that mean: the weights that a sampler gave to what it
    drew hold the denominator, too (FastGCN, AS-GCN).
    """

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        own, others = weight[:, :, 0], weight[:, :, 1:]
        return h * own + (children * others).sum(dim=2) + self.bias


class SAGEConv(TreeConv):
    r"""The mean of the neighbours, beside the node itself (GraphSAGE, PASS)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, 2 * out_channels, bias=False)  # of neighbours, of self
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        others, width = weight[:, :, 1:], self.bias.numel()
        count = others.detach().sum(dim=2).clamp(min=1)
        mean = (children[..., :width] * others).sum(dim=2) / count
        return mean + h[..., width:] + self.bias


class SumConv(TreeConv):
    r"""A perceptron, batch-normalised inside, of the sum of a node and its
    neighbours (GIN).
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden_channels, bias=False)
        self.norm = nn.BatchNorm1d(hidden_channels)
        self.out = nn.Linear(hidden_channels, out_channels)

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        return h + (children * weight[:, :, 1:]).sum(dim=2)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        # Null slots are no nodes: they must not move the statistics.
        normed = torch.zeros_like(h).masked_scatter(real[..., None], self.norm(h[real]))
        return self.out(normed.relu())


class AttentionConv(TreeConv):
    r"""An attention-weighted mean of a node and its neighbours (GAT)."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.att_source = nn.Parameter(torch.empty(heads, out_channels // heads))
        self.att_target = nn.Parameter(torch.empty(heads, out_channels // heads))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.xavier_uniform_(self.att_source)
        nn.init.xavier_uniform_(self.att_target)

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        members = torch.cat([h[:, :, None], children], dim=2)
        members = members.unflatten(-1, (self.heads, -1))  # [B, P, 1 + f, heads, H / heads]
        present = weight | ~weight[:, :, :1]  # a null parent attends to anything: no one reads it
        target = (members[:, :, :1] * self.att_target).sum(dim=-1)
        score = F.leaky_relu((members * self.att_source).sum(dim=-1) + target, 0.2)
        share = score.masked_fill(~present, -torch.inf).softmax(dim=2)
        return (members * share[..., None]).sum(dim=2).flatten(-2) + self.bias


def mean_of(h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
    r"""The mean of each slot and its real children."""
    real = weight[:, :, 1:]
    return (h + (children * real).sum(dim=2)) / (1 + real.sum(dim=2))
