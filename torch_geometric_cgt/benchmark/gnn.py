r"""GNNs that shrink a computation graph to its root, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.convs import TreeConv
from torch_geometric_cgt.benchmark.rows import Rows, drop, pad
from torch_geometric_cgt.data import TreeShape


class GNN(nn.Module):
    r"""What the training loop knows of a model: logits and a loss."""

    samples = False  # whether gradients are noisy, because neighbours are drawn

    def forward(self, x: Rows, index: Tensor) -> Tensor:
        r"""The logits of each root, ``[B, num_classes]``.

        Args:
            x (torch.Tensor or SparseRows): The distinct feature vectors,
                ``[R, F]``.
            index (torch.Tensor): The row of each slot, ``[B, T]``; :math:`R`
                where null.
        """
        raise TypeError(f'{type(self).__name__} must define forward()')

    def loss(self, x: Rows, index: Tensor, y: Tensor) -> Tensor:
        r"""What training makes small: the cross entropy, and whatever else a
        model wants to be small.

        Args:
            x (torch.Tensor or SparseRows): As in :meth:`forward`.
            index (torch.Tensor): As in :meth:`forward`.
            y (torch.Tensor): The label of each root, ``[B]``.
        """
        return F.cross_entropy(self(x, index), y)


class TreeGNN(GNN):
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
        self,
        convs: Sequence[TreeConv],
        shape: TreeShape,
        dropout: float = 0.5,
        act: bool = True,
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
        weights = families(index < x.size(0), self.shape)
        return self.run(x, index, [weights] * self.shape.depth)[0]

    def run(
        self, x: Rows, index: Tensor, weights: Sequence[Sequence[Tensor]]
    ) -> tuple[Tensor, Tensor]:
        r"""The logits of each root, and what the last convolution aggregated:
        the root and its children, ``[B, 1 + f, num_classes]``.

        Args:
            x (torch.Tensor or SparseRows): As in :meth:`forward`.
            index (torch.Tensor): As in :meth:`forward`.
            weights (list[list[torch.Tensor]]): For each convolution, and for
                each layer of parents, the weights of :class:`TreeConv`,
                ``[B, P, 1 + f]``.
        """
        shape, real, convs = self.shape, index < x.size(0), self.convs
        table = pad(convs[0].project(drop(x, self.dropout, self.training)))
        members = zip(families(index, shape), weights[0], strict=True)
        out = [convs[0].aggregate_rows(table, rows, weight) for rows, weight in members]
        h = convs[0].update(torch.cat(out, dim=1), real[:, : shape.num_internal])
        inputs = F.embedding(index, table) if shape.depth == 1 else h
        for step, conv in enumerate(convs[1:], start=1):
            depth = shape.depth - step
            inputs = h.relu() if self.act else h
            inputs = conv.project(drop(inputs, self.dropout, self.training))
            layers = inputs.split(shape.layer_sizes[: depth + 1], dim=1)
            out = []
            for layer, weight in enumerate(weights[step][:depth]):
                children = layers[layer + 1].unflatten(1, (-1, shape.num_neighbors[layer]))
                out.append(conv.aggregate(layers[layer], children, weight))
            h = conv.update(torch.cat(out, dim=1), real[:, : shape.offsets[depth]])
        return h[:, 0], inputs


def families(value: Tensor, shape: TreeShape) -> list[Tensor]:
    r"""A value per slot, ``[B, T]``, as parents with their children behind
    them: ``[B, P, 1 + f]`` for each layer of parents.
    """
    out = []
    for layer, fan_out in enumerate(shape.num_neighbors):
        parents = value[:, shape.layer_slice(layer), None]
        children = value[:, shape.layer_slice(layer + 1)].unflatten(1, (-1, fan_out))
        out.append(torch.cat([parents, children], dim=2))
    return out


def lookup(table: Tensor, index: Tensor) -> Tensor:
    r"""The row of each slot, ``[..., H]``; zero where the slot is null."""
    return F.embedding(index, pad(table))
