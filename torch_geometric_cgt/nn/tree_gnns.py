r"""GNNs on computation graphs: stacks of convolutions, and PPNP."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.token_trees import Rows
from torch_geometric_cgt.nn.tree_convs import (
    TreeConv,
    dropout_rows,
    linear,
    pad_null,
    parents_with_children,
)


class GNN(nn.Module):
    r"""The interface between a model and the training loop: logits and a loss."""

    samples = False  # whether the model samples neighbours, so that its gradients are noisy

    def forward(self, x: Rows, tokens: Tensor) -> Tensor:
        r"""The logits of each root, ``[B, num_classes]``.

        Args:
            x (torch.Tensor or SparseRows): The features of each token,
                ``[R, F]``.
            tokens (torch.Tensor): The token of each slot, ``[B, T]``;
                :math:`R` where null.
        """
        raise TypeError(f'{type(self).__name__} must define forward()')

    def loss(self, x: Rows, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The training loss: the cross entropy, and further terms of a model.

        Args:
            x (torch.Tensor or SparseRows): As in :meth:`forward`.
            tokens (torch.Tensor): As in :meth:`forward`.
            y (torch.Tensor): The label of each root, ``[B]``.
        """
        return F.cross_entropy(self(x, tokens), y)


class TreeGNN(GNN):
    r"""A stack of convolutions. Each one removes the deepest layer of the
    computation graph, until the root is left.

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
        if len(convs) != shape.depth:
            raise ValueError(
                f'Expected one convolution per layer of the trees, {shape.depth} for '
                f'{list(shape.num_neighbors)} (got {len(convs)})'
            )
        self.layers = nn.ModuleList(convs)
        self.shape = shape
        self.num_slots = shape.num_slots  # also caches the offsets: a compiled forward() cannot
        self.dropout = dropout
        self.act = act

    @property
    def convs(self) -> list[TreeConv]:
        r"""The convolutions in the order in which they run."""
        return [conv for conv in self.layers if isinstance(conv, TreeConv)]

    def forward(self, x: Rows, tokens: Tensor) -> Tensor:
        real = tokens < x.size(0)
        weights = [conv.weights(real, self.shape) for conv in self.convs]
        return self.run(x, tokens, weights)[0]

    def run(
        self, x: Rows, tokens: Tensor, weights: Sequence[Sequence[Tensor]]
    ) -> tuple[Tensor, Tensor]:
        r"""The logits of each root, and the input of the last aggregation: the
        root and its children, ``[B, 1 + f, num_classes]``.

        Args:
            x (torch.Tensor or SparseRows): As in :meth:`forward`.
            tokens (torch.Tensor): As in :meth:`forward`.
            weights (list[list[torch.Tensor]]): For each convolution, and for
                each layer of parents, the weights of :class:`TreeConv`,
                ``[B, P, 1 + f]``.
        """
        shape, real, convs = self.shape, tokens < x.size(0), self.convs
        table = pad_null(convs[0].project(dropout_rows(x, self.dropout, self.training)))
        members = zip(parents_with_children(tokens, shape), weights[0], strict=True)
        out = [convs[0].aggregate_rows(table, rows, weight) for rows, weight in members]
        h = convs[0].update(torch.cat(out, dim=1), real[:, : shape.num_internal])
        if shape.depth == 1:
            return h[:, 0], F.embedding(tokens, table)
        return self.run_from(h, real, weights)

    def run_from(
        self, h: Tensor, real: Tensor, weights: Sequence[Sequence[Tensor]]
    ) -> tuple[Tensor, Tensor]:
        r"""The same as :meth:`run`, from the output of the first convolution.

        Args:
            h (torch.Tensor): The internal slots, ``[B, P, H]``.
            real (torch.Tensor): Which slots are not null, ``[B, T]``.
            weights (list[list[torch.Tensor]]): As in :meth:`run`.
        """
        shape, inputs = self.shape, h
        for step, conv in enumerate(self.convs[1:], start=1):
            depth = shape.depth - step
            inputs = h.relu() if self.act else h
            inputs = conv.project(dropout_rows(inputs, self.dropout, self.training))
            layers = inputs.split(shape.layer_sizes[: depth + 1], dim=1)
            out = []
            for layer, weight in enumerate(weights[step][:depth]):
                children = layers[layer + 1].unflatten(1, (-1, shape.num_neighbors[layer]))
                out.append(conv.aggregate(layers[layer], children, weight))
            h = conv.update(torch.cat(out, dim=1), real[:, : shape.offsets[depth]])
        return h[:, 0], inputs


class PPNP(GNN):
    r"""A perceptron predicts from the features of each node alone.
    Personalised PageRank then propagates the predictions to the root
    (Klicpera et al., 2019).

    The random walk stays at a node or moves to one of its children, with
    equal probabilities, and restarts with probability :obj:`teleport`. It
    never moves upwards. The fixed point of PPNP, which APPNP approximates by
    power iteration, is therefore computed exactly from the leaves to the root:

    .. math::
        z_v = \frac{\alpha \, h_v + \frac{1 - \alpha}{1 + d_v} \sum_{u} z_u}
                   {1 - \frac{1 - \alpha}{1 + d_v}}

    The perceptron runs on the distinct rows of a batch.

    Args:
        in_channels (int): The number of features.
        hidden_channels (int): The width of the perceptron.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        dropout (float, optional): The dropout probability of the inputs of
            both layers. (default: :obj:`0.5`)
        teleport (float, optional): The restart probability :math:`\alpha`.
            (default: :obj:`0.1`)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_classes: int,
        shape: TreeShape,
        dropout: float = 0.5,
        teleport: float = 0.1,
    ) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(hidden_channels))
        self.out = nn.Linear(hidden_channels, num_classes)
        self.shape = shape
        self.num_slots = shape.num_slots  # also caches the offsets: a compiled forward() cannot
        self.dropout = dropout
        self.teleport = teleport

    def predict(self, x: Rows) -> Tensor:
        r"""The prediction for each row, ``[R, num_classes]``."""
        h = linear(dropout_rows(x, self.dropout, self.training), self.lin) + self.bias
        return self.out(dropout_rows(h.relu(), self.dropout, self.training))

    def forward(self, x: Rows, tokens: Tensor) -> Tensor:
        return self.propagate(lookup(self.predict(x), tokens), tokens < x.size(0))

    def propagate(self, h: Tensor, real: Tensor) -> Tensor:
        r"""The PageRank-weighted mean for each root, ``[B, C]``.

        Args:
            h (torch.Tensor): The prediction of each slot, ``[B, T, C]``, zero
                where it is null.
            real (torch.Tensor): Which slots are real, ``[B, T]``.
        """
        z = h[:, self.shape.layer_slice(self.shape.depth)]
        for layer in range(self.shape.depth - 1, -1, -1):
            split = (self.shape.layer_sizes[layer], self.shape.num_neighbors[layer])
            below = real[:, self.shape.layer_slice(layer + 1)].unflatten(1, split)
            step = (1 - self.teleport) / (1 + below.sum(dim=2))[..., None]
            parents = h[:, self.shape.layer_slice(layer)]
            z = (self.teleport * parents + step * z.unflatten(1, split).sum(dim=2)) / (1 - step)
        return z[:, 0]


def lookup(table: Tensor, tokens: Tensor) -> Tensor:
    r"""The row of each token, ``[..., H]``; zero where it is null."""
    return F.embedding(tokens, pad_null(table))
