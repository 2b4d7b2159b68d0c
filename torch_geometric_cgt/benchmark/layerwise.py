r"""Layer-wise samplers: nodes are drawn for all parents of a layer at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.convs import DrawnMeanConv
from torch_geometric_cgt.benchmark.draws import draw_positions
from torch_geometric_cgt.benchmark.gnn import TreeGNN, families, lookup
from torch_geometric_cgt.benchmark.rows import Rows, linear
from torch_geometric_cgt.data import TreeShape


class FastGCN(TreeGNN):
    r"""GCN with importance sampling per layer (Chen et al., 2018).

    Candidates are the parents of a layer in all trees of the batch, and all
    their real children. Every slot is a node of its own, as duplicate encoding
    makes it, whether it points to a node or to a cluster: the original, the
    quantized and the generated graph are treated alike. The number of draws,
    with replacement, is :obj:`num_sampled` times the number of real parents.
    The probability :math:`q` of a candidate is proportional to the squared
    norm of its column in the normalised adjacency, that is to
    :math:`1 / (1 + d)^2` with the :math:`d` children of its parent, and a draw
    has the weight :math:`1 / (t q)`: the sum is an unbiased estimate of the
    aggregation of GCN, in training as at test time. A parent of which nothing
    was drawn gets nothing. Each convolution draws anew.

    Args:
        convs (list[DrawnMeanConv]): One convolution per layer of the tree.
        shape (TreeShape): The geometry of the trees.
        num_sampled (int, optional): The number of draws per real parent. If
            set to :obj:`None`, as many as the tree has slots for children.
            (default: :obj:`None`)
        dropout (float, optional): The dropout probability of the inputs of
            each layer. (default: :obj:`0.5`)
    """

    samples = True

    def __init__(
        self,
        convs: Sequence[DrawnMeanConv],
        shape: TreeShape,
        num_sampled: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(convs, shape, dropout)
        self.num_draws = [num_sampled or fan_out for fan_out in shape.num_neighbors]

    def forward(self, x: Rows, index: Tensor) -> Tensor:
        return self.run(x, index, self.plan(*self.candidates(x, index)))[0]

    def candidates(self, x: Rows, index: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        r"""For each layer of parents, the entries of the normalised adjacency,
        ``[B, P, 1 + f]``, and what the probabilities are proportional to.
        """
        rows = adjacency(index < x.size(0), self.shape)
        return rows, [p**2 for p in rows]

    def plan(self, rows: list[Tensor], chances: list[Tensor]) -> list[list[Tensor]]:
        r"""Draws the weights for all convolutions and layers, see
        :meth:`TreeGNN.run`.
        """
        layers = list(zip(rows, chances, self.num_draws, strict=True))
        return [
            [p * draw(chance, num) for p, chance, num in layers[:depth]]
            for depth in range(len(layers), 0, -1)
        ]


class ASGCN(FastGCN):
    r"""GCN with a sampler per layer that learns (AS-GCN, Huang et al., 2018).

    It differs from :class:`FastGCN` in the probabilities: they are
    proportional to :math:`p(u|v) (1 + |g(x_u)|)` with :math:`p(u|v) =
    1 / (1 + d_v)` and a linear :math:`g` that is learned. The one keeps every
    candidate within reach, and the weights bounded. And the draws go from the
    root down: candidates are the slots that were drawn before, and their
    children. The sampler learns from the variance of the estimate at the
    roots, of which :obj:`variance_weight` times the mean is added to the loss.
    All candidates are at hand, so the variance is computed, not estimated.

    Args:
        in_channels (int): The number of features.
        convs (list[DrawnMeanConv]): One convolution per layer of the tree.
        shape (TreeShape): The geometry of the trees.
        num_sampled (int, optional): The number of draws per parent that was
            drawn. If set to :obj:`None`, as many as the tree has slots for
            children. (default: :obj:`None`)
        dropout (float, optional): The dropout probability of the inputs of
            each layer. (default: :obj:`0.5`)
        variance_weight (float, optional): The weight of the variance in the
            loss. (default: :obj:`0.5`)
    """

    def __init__(
        self,
        in_channels: int,
        convs: Sequence[DrawnMeanConv],
        shape: TreeShape,
        num_sampled: int | None = None,
        dropout: float = 0.5,
        variance_weight: float = 0.5,
    ) -> None:
        super().__init__(convs, shape, num_sampled, dropout)
        self.score = nn.Linear(in_channels, 1, bias=False)
        self.variance_weight = variance_weight

    def loss(self, x: Rows, index: Tensor, y: Tensor) -> Tensor:
        rows, chances = self.candidates(x, index)
        logits, inputs = self.run(x, index, self.plan(rows, chances))
        spread = variance(inputs, rows[0][:, 0], chances[0][:, 0], self.num_draws[0])
        return F.cross_entropy(logits, y) + self.variance_weight * spread.mean()

    def candidates(self, x: Rows, index: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        rows = adjacency(index < x.size(0), self.shape)
        score = lookup(1 + linear(x, self.score).abs(), index).squeeze(-1)
        return rows, [p * s for p, s in zip(rows, families(score, self.shape), strict=True)]

    def plan(self, rows: list[Tensor], chances: list[Tensor]) -> list[list[Tensor]]:
        weights: list[list[Tensor]] = []
        drawn = [torch.ones_like(rows[0][:, :, 0], dtype=torch.bool)]  # the roots
        for depth in range(1, len(rows) + 1):
            step, reached = [], [torch.zeros_like(drawn[0])]
            for layer in range(depth):
                chance = chances[layer].detach() * drawn[layer][..., None]
                step.append(rows[layer] * draw(chance, self.num_draws[layer]))
                reached[layer] = reached[layer] | (step[layer][:, :, 0] > 0)
                reached.append((step[layer][:, :, 1:] > 0).flatten(1))
            weights.insert(0, step)
            drawn = reached
        return weights


def adjacency(real: Tensor, shape: TreeShape) -> list[Tensor]:
    r"""The normalised adjacency :math:`1 / (1 + d)` between the parents of
    each layer and themselves and their children, ``[B, P, 1 + f]``.
    """
    return [f / f.sum(dim=2, keepdim=True).clamp(min=1) for f in families(real, shape)]


def draw(chance: Tensor, num: int) -> Tensor:
    r"""Draws candidates with replacement and weights each draw by
    :math:`1 / (t q)`, so that a weight of one is expected everywhere.

    Args:
        chance (torch.Tensor): What the probabilities are proportional to,
            ``[B, P, 1 + f]``; zero where there is no candidate.
        num (int): The number of draws per parent that has candidates.
    """
    total = num * int((chance > 0).any(dim=2).sum())
    position = draw_positions(chance.flatten(), total)
    count = torch.bincount(position, minlength=chance.numel()).view_as(chance)
    expected = chance * (total / chance.sum().clamp(min=1e-20))
    return count / expected.clamp(min=1e-20)


def variance(h: Tensor, p: Tensor, chance: Tensor, num: int) -> Tensor:
    r"""The variance of the estimated aggregation at each root, ``[B, C]``.

    Args:
        h (torch.Tensor): The root and its children, ``[B, 1 + f, C]``.
        p (torch.Tensor): Their entries in the normalised adjacency,
            ``[B, 1 + f]``.
        chance (torch.Tensor): What their probabilities are proportional to.
        num (int): The number of draws per root.
    """
    q = (chance / chance.sum()).clamp(min=1e-20)
    mean = (p[..., None] * h).sum(dim=1)
    square = ((p**2 / q)[..., None] * h**2).sum(dim=1)
    return (square - mean**2) / (num * h.size(0))
