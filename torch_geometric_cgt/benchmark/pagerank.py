r"""PPNP: predictions first, personalised PageRank second."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.gnn import GNN, lookup
from torch_geometric_cgt.benchmark.rows import Rows, drop, linear
from torch_geometric_cgt.data import TreeShape


class PPNP(GNN):
    r"""A perceptron predicts from the features of each node alone, and
    personalised PageRank with the root's prediction as restart carries the
    predictions to the root (Klicpera et al., 2019).

    The walk goes from a parent to its children or stays, all alike, and ends
    with probability :obj:`teleport`. No walk leads upwards, so the closed form
    of PPNP, which is what the power steps of APPNP approach, is found exactly
    from the leaves to the root:

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
        self.dropout = dropout
        self.teleport = teleport

    def predict(self, x: Rows) -> Tensor:
        r"""The prediction for each row, ``[R, num_classes]``."""
        h = linear(drop(x, self.dropout, self.training), self.lin) + self.bias
        return self.out(drop(h.relu(), self.dropout, self.training))

    def forward(self, x: Rows, index: Tensor) -> Tensor:
        return self.propagate(lookup(self.predict(x), index), index < x.size(0))

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
