r"""GNNs on computation graphs, as dense operations on rows of slots."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.rows import Rows, drop, linear
from torch_geometric_cgt.data import TreeShape


class TreeConv(nn.Module):
    r"""One message-passing step from the children of a slot to the slot.

    The part that is linear in the input comes first, in :meth:`project`, and
    the aggregation second: for the first layer, the projection then runs on
    the distinct rows of a batch and not on every slot.
    """

    def project(self, x: Rows) -> Tensor:
        r"""Maps features ``[..., F]`` to channels ``[..., H]``."""
        raise TypeError(f'{type(self).__name__} must define project()')

    def aggregate(self, h: Tensor, children: Tensor, real: Tensor) -> Tensor:
        r"""Joins projected children with their projected parents.

        Args:
            h (torch.Tensor): The parents, ``[B, P, H]``.
            children (torch.Tensor): The children, ``[B, P, f, H]``.
            real (torch.Tensor): Which children are real, ``[B, P, f, 1]``.
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

    def aggregate(self, h: Tensor, children: Tensor, real: Tensor) -> Tensor:
        return mean_of(h, children, real) + self.bias


class PlainMeanConv(TreeConv):
    r"""The mean of a node and its neighbours, with nothing to learn (SGC)."""

    def project(self, x: Rows) -> Tensor:
        return torch.as_tensor(x)  # it never comes first: always channels

    def aggregate(self, h: Tensor, children: Tensor, real: Tensor) -> Tensor:
        return mean_of(h, children, real)


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

    def aggregate(self, h: Tensor, children: Tensor, real: Tensor) -> Tensor:
        return h + (children * real).sum(dim=2)

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

    def aggregate(self, h: Tensor, children: Tensor, real: Tensor) -> Tensor:
        members = torch.cat([h[:, :, None], children], dim=2)
        members = members.unflatten(-1, (self.heads, -1))  # [B, P, 1 + f, heads, H / heads]
        present = torch.cat([torch.ones_like(real[:, :, :1]), real], dim=2)
        target = (members[:, :, :1] * self.att_target).sum(dim=-1)
        score = F.leaky_relu((members * self.att_source).sum(dim=-1) + target, 0.2)
        weight = score.masked_fill(~present, -torch.inf).softmax(dim=2)
        return (members * weight[..., None]).sum(dim=2).flatten(-2) + self.bias


def mean_of(h: Tensor, children: Tensor, real: Tensor) -> Tensor:
    r"""The mean of each slot and its real children."""
    return (h + (children * real).sum(dim=2)) / (1 + real.sum(dim=2))


class TreeGNN(nn.Module):
    r"""A stack of convolutions that shrinks a computation graph to its root.

    Args:
        convs (list[TreeConv]): One convolution per layer of the tree.
        shape (TreeShape): The geometry of the trees.
        dropout (float, optional): The dropout probability of the inputs of
            each layer. (default: :obj:`0.5`)
        act (bool, optional): Whether there is a non-linearity between layers.
            (default: :obj:`True`)
    """

    def __init__(
        self, convs: list[TreeConv], shape: TreeShape, dropout: float = 0.5, act: bool = True
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(convs)
        self.shape = shape
        self.dropout = dropout
        self.act = act

    @property
    def convs(self) -> list[TreeConv]:
        r"""The convolutions, the one that runs first in front."""
        return [conv for conv in self.layers if isinstance(conv, TreeConv)]

    def forward(self, x: Rows, index: Tensor) -> Tensor:
        r"""The logits of each root, ``[B, num_classes]``.

        Args:
            x (torch.Tensor or SparseRows): The distinct feature vectors,
                ``[R, F]``.
            index (torch.Tensor): The row of each slot, ``[B, T]``; :math:`R`
                where null.
        """
        real = index < x.size(0)
        table = self.convs[0].project(drop(x, self.dropout, self.training))
        h = F.embedding(index, F.pad(table, (0, 0, 0, 1)))  # [B, T, H], null slots are zero
        for depth, conv in zip(range(self.shape.depth, 0, -1), self.convs, strict=True):
            if depth < self.shape.depth:
                h = h.relu() if self.act else h
                h = conv.project(drop(h, self.dropout, self.training))
            out = []
            for layer in range(depth):
                parents, below = self.shape.layer_slice(layer), self.shape.layer_slice(layer + 1)
                split = (self.shape.layer_sizes[layer], self.shape.num_neighbors[layer])
                out.append(
                    conv.aggregate(
                        h[:, parents],
                        h[:, below].unflatten(1, split),
                        real[:, below].unflatten(1, split)[..., None],
                    )
                )
            h = conv.update(torch.cat(out, dim=1), real[:, : self.shape.offsets[depth]])
        return h[:, 0]


def make_gnn(
    name: str,
    in_channels: int,
    num_classes: int,
    shape: TreeShape,
    hidden_channels: int = 64,
    dropout: float = 0.5,
) -> TreeGNN:
    r"""Makes one of :obj:`MODELS`.

    Args:
        name (str): The name of the model.
        in_channels (int): The number of features.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees; its depth is the number
            of layers.
        hidden_channels (int, optional): The width. (default: :obj:`64`)
        dropout (float, optional): The dropout probability.
            (default: :obj:`0.5`)
    """
    sizes = [in_channels, *[hidden_channels] * (shape.depth - 1), num_classes]
    pairs = list(pairwise(sizes))
    if name == 'GCN':
        return TreeGNN([MeanConv(i, o) for i, o in pairs], shape, dropout)
    if name == 'SGC':
        plain = [PlainMeanConv() for _ in pairs[1:]]
        return TreeGNN([MeanConv(in_channels, num_classes), *plain], shape, 0.0, act=False)
    if name == 'GIN':
        return TreeGNN([SumConv(i, hidden_channels, o) for i, o in pairs], shape, dropout)
    if name == 'GAT':
        heads = [4] * (shape.depth - 1) + [1]
        return TreeGNN(
            [AttentionConv(i, o, h) for (i, o), h in zip(pairs, heads, strict=True)],
            shape,
            dropout,
        )
    raise ValueError(f"Unknown model '{name}'; choose from {list(MODELS)}")


MODELS = ('GCN', 'SGC', 'GIN', 'GAT')
