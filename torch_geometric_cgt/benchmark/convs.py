r"""Graph convolutions on trees of one shape, as dense operations on parents and children."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.sparse_ops import linear, weighted_sum
from torch_geometric_cgt.data.token_trees import Rows


class TreeConv(nn.Module):
    r"""One message-passing step from the children of a slot to the slot.

    The linear part :meth:`project` comes first and the aggregation second, so
    that the projection of the first layer runs on the distinct rows of a
    batch instead of all slots.

    A parent and its children have weights, ``[B, P, 1 + f]``. Without a
    sampler, they are :obj:`True` for real slots. A sampler gives them
    numbers. Slots that are null or were not sampled have the weight zero.
    """

    def project(self, x: Rows) -> Tensor:
        r"""Maps features ``[..., F]`` to channels ``[..., H]``."""
        raise TypeError(f'{type(self).__name__} must define project()')

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        r"""Aggregates projected parents and children.

        Args:
            h (torch.Tensor): The parents, ``[B, P, H]``.
            children (torch.Tensor): The children, ``[B, P, f, H]``.
            weight (torch.Tensor): Their weights, ``[B, P, 1 + f]``.
        """
        raise TypeError(f'{type(self).__name__} must define aggregate()')

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        r"""The same as :meth:`aggregate`, for parents and children given as
        rows of a table, which are not copied to every slot.

        Args:
            table (torch.Tensor): The projected rows, ``[R + 1, H]``.
            index (torch.Tensor): The row of each parent and of its children,
                ``[B, P, 1 + f]``.
            weight (torch.Tensor): Their weights, ``[B, P, 1 + f]``.
        """
        members = F.embedding(index, table)
        return self.aggregate(members[:, :, 0], members[:, :, 1:], weight)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        r"""Transforms the slots of all layers after the aggregation.

        Args:
            h (torch.Tensor): The slots, ``[B, P, H]``.
            real (torch.Tensor): Which of them are real, ``[B, P]``.
        """
        return h


class LinearConv(TreeConv):
    r"""A weighted sum of a node and its neighbours."""

    def coefficients(self, weight: Tensor) -> Tensor:
        r"""The factors in the sum, ``[B, P, 1 + f]``."""
        return weight.float()

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        factor = self.coefficients(weight)[..., None]
        return h * factor[:, :, 0] + (children * factor[:, :, 1:]).sum(dim=2)

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        return weighted_sum(table, index, self.coefficients(weight))


class PlainMeanConv(LinearConv):
    r"""The mean of a node and its neighbours, without parameters (SGC)."""

    def project(self, x: Rows) -> Tensor:
        return torch.as_tensor(x)  # never the first layer: the input is dense

    def coefficients(self, weight: Tensor) -> Tensor:
        return weight / weight.sum(dim=2, keepdim=True).clamp(min=1)


class MeanConv(PlainMeanConv):
    r"""The mean of a node and its neighbours (GCN)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        return h + self.bias


class SampledMeanConv(MeanConv):
    r"""An estimate of the mean of :class:`MeanConv` (FastGCN, AS-GCN). The
    weights of the sampler contain the denominator.
    """

    def coefficients(self, weight: Tensor) -> Tensor:
        return weight


class SumConv(LinearConv):
    r"""The sum of a node and its neighbours, followed by a perceptron with
    batch normalisation (GIN).
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden_channels, bias=False)
        self.norm = nn.BatchNorm1d(hidden_channels)
        self.out = nn.Linear(hidden_channels, out_channels)

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        # Null slots must not enter the batch statistics.
        normed = torch.zeros_like(h).masked_scatter(real[..., None], self.norm(h[real]))
        return self.out(normed.relu())


class SAGEConv(TreeConv):
    r"""The mean of the neighbours, and a weight matrix of its own for the node
    itself (GraphSAGE, PASS).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, 2 * out_channels, bias=False)  # for neighbours and self
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        mean = (children.chunk(2, dim=-1)[0] * self._share(weight)[..., None]).sum(dim=2)
        return mean + h.chunk(2, dim=-1)[1]

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        others, own = table.chunk(2, dim=-1)
        mean = weighted_sum(others, index[:, :, 1:], self._share(weight))
        return mean + F.embedding(index[:, :, 0], own)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        return h + self.bias

    def _share(self, weight: Tensor) -> Tensor:
        others = weight[:, :, 1:]
        return others / others.detach().sum(dim=2, keepdim=True).clamp(min=1)


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
        source = (members * self.att_source).sum(dim=-1)
        target = (members[:, :, :1] * self.att_target).sum(dim=-1)
        return (members * self._share(source, target, weight)[..., None]).sum(dim=2).flatten(-2)

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        parts = table.unflatten(-1, (self.heads, -1))  # [R + 1, heads, H / heads]
        source = F.embedding(index, (parts * self.att_source).sum(dim=-1))
        target = F.embedding(index[:, :, :1], (parts * self.att_target).sum(dim=-1))
        share = self._share(source, target, weight).transpose(2, 3)  # [B, P, heads, 1 + f]
        head = torch.arange(self.heads, device=index.device)[:, None]
        part = index[:, :, None] * self.heads + head
        return weighted_sum(parts.flatten(0, 1), part, share).flatten(2)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        return h + self.bias

    def _share(self, source: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        r"""The attention to each parent and its children, ``[B, P, 1 + f, heads]``."""
        present = weight | ~weight[:, :, :1]  # null parents get any finite value: it is not used
        score = F.leaky_relu(source + target, 0.2)
        return score.masked_fill(~present[..., None], -torch.inf).softmax(dim=2)
