r"""GNNs that sample neighbours: per node (GraphSAGE, PASS) or per layer (FastGCN, AS-GCN)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.token_trees import Rows
from torch_geometric_cgt.nn.tree_convs import (
    SampledMeanConv,
    TreeConv,
    linear,
    parents_with_children,
)
from torch_geometric_cgt.nn.tree_gnns import TreeGNN, lookup


def sample_categorical(weight: Tensor, num: int) -> Tensor:
    r"""Samples positions along the last dimension with replacement,
    ``[..., num]``.

    A position with the weight zero is never drawn. If all weights are zero,
    the first position is.

    Args:
        weight (torch.Tensor): The probabilities up to a factor, ``[..., m]``.
        num (int): The number of draws.
    """
    edges = weight.double().cumsum(dim=-1)
    total = edges[..., -1:]
    at = torch.rand((*weight.shape[:-1], num), dtype=torch.double, device=weight.device) * total
    at = at.minimum(total.nextafter(-torch.ones_like(total)))  # a product may round up to the end
    return torch.searchsorted(edges, at, right=True)


class NodeSampler(nn.Module):
    r"""Samples children for each parent."""

    with_replacement = False

    def project(self, x: Rows) -> Tensor | None:
        r"""The features that the sampler uses of each row, ``[R, D]``."""
        return None

    def sample(
        self, h: Tensor | None, parents: Tensor, children: Tensor, real: Tensor, num: int
    ) -> tuple[Tensor, Tensor]:
        r"""The positions of the children that are drawn, ``[B, P, num]``, and
        their weights: one where they are real, and zero where they are null.

        Args:
            h (torch.Tensor, optional): The result of :meth:`project`.
            parents (torch.Tensor): The rows of the parents, ``[B, P]``.
            children (torch.Tensor): The rows of their children, ``[B, P, f]``.
            real (torch.Tensor): Which children are real, ``[B, P, f]``.
            num (int): The number of children to draw.
        """
        raise TypeError(f'{type(self).__name__} must define sample()')


class UniformSampler(NodeSampler):
    r"""Draws real children uniformly and without replacement (GraphSAGE). If
    all are to be drawn, they are taken in their order.
    """

    def sample(
        self, h: Tensor | None, parents: Tensor, children: Tensor, real: Tensor, num: int
    ) -> tuple[Tensor, Tensor]:
        if num == real.size(2):
            return torch.arange(num, device=real.device).expand_as(real), real
        key = torch.rand(real.shape, device=real.device).masked_fill(~real, 2.0)
        choice = key.topk(num, dim=2, largest=False).indices
        return choice, real.gather(2, choice)


class PASSSampler(NodeSampler):
    r"""Draws children with learned probabilities (PASS, Yoon et al., 2021).

    Child :math:`j` of :math:`i` is drawn, with replacement, with probability

    .. math::
        q(j|i) = a_1 \, \mathrm{softmax}_j \left(
            (W_s x_i)^{\top} (W_s x_j) / \sqrt{D} \right) + a_2 \frac{1}{d_i}

    where :math:`a = \mathrm{softmax}(a_s)`. The drawn children are averaged.
    The gradient of the loss passes a draw by the log-derivative trick: each
    message is multiplied by :math:`q / q`, where the denominator is a
    constant. The factor has the value one and the gradient
    :math:`\nabla \log q(j|i)`, so that the sampler is trained by
    :math:`\nabla_{h_i} L \cdot \frac{1}{s} \sum_j h_j \nabla \log q(j|i)`, as
    in the paper.

    Args:
        in_channels (int): The number of features.
        hidden_channels (int): The number of rows of :math:`W_s`.
    """

    with_replacement = True

    def __init__(self, in_channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden_channels, bias=False)
        self.mix = nn.Parameter(torch.zeros(2))

    def project(self, x: Rows) -> Tensor | None:
        return linear(x, self.lin)

    def probability(self, h: Tensor, parents: Tensor, children: Tensor, real: Tensor) -> Tensor:
        r"""The probability of each child, ``[B, P, f]``, zero where null."""
        target, source = lookup(h, parents), lookup(h, children)
        score = (source * target[:, :, None]).sum(dim=-1) / h.size(1) ** 0.5
        share = score.masked_fill(~real, -1e9).softmax(dim=2)
        even = real / real.sum(dim=2, keepdim=True).clamp(min=1)
        mix = self.mix.softmax(dim=0)
        return (mix[0] * share + mix[1] * even) * real

    def sample(
        self, h: Tensor | None, parents: Tensor, children: Tensor, real: Tensor, num: int
    ) -> tuple[Tensor, Tensor]:
        if h is None:
            raise TypeError("PASSSampler needs the result of project() as 'h' (got None)")
        q = self.probability(h, parents, children, real)
        choice = sample_categorical(q.detach(), num)
        drawn = real.gather(2, choice)
        chance = q.gather(2, choice).masked_fill(~drawn, 1.0)
        return choice, drawn * (chance / chance.detach())


class NodewiseGNN(TreeGNN):
    r"""Convolutions on a sample of each computation graph. Every parent
    samples children, from the root down, in training and at test time.

    Args:
        convs (list[TreeConv]): One convolution per layer of the tree.
        shape (TreeShape): The geometry of the trees.
        sampler (NodeSampler): Samples the children.
        num_sampled (int, optional): The number of children that each parent
            draws. If set to :obj:`None`, as many as the tree has slots for.
            (default: :obj:`None`)
        dropout (float, optional): The dropout probability of the inputs of
            each layer. (default: :obj:`0.5`)
    """

    samples = True

    def __init__(
        self,
        convs: Sequence[TreeConv],
        shape: TreeShape,
        sampler: NodeSampler,
        num_sampled: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        drawn = [num_sampled or f for f in shape.num_neighbors]
        if not sampler.with_replacement:
            drawn = [min(n, f) for n, f in zip(drawn, shape.num_neighbors, strict=True)]
        super().__init__(convs, TreeShape(tuple(drawn)), dropout)
        self.full_shape = shape
        self.sampler = sampler

    def forward(self, x: Rows, tokens: Tensor) -> Tensor:
        tokens, weight = self.sample(x, tokens)
        weights = parents_with_children(weight, self.shape)
        return self.run(x, tokens, [weights] * self.shape.depth)[0]

    def sample(self, x: Rows, tokens: Tensor) -> tuple[Tensor, Tensor]:
        r"""The tokens of the sampled slots and their weights, in the order of
        the smaller tree.
        """
        h, null = self.sampler.project(x), x.size(0)
        rows, weights = [tokens[:, :1]], [tokens[:, :1] < null]
        slot = torch.zeros_like(tokens[:, :1])  # in its layer
        for layer, fan_out in enumerate(self.full_shape.num_neighbors):
            below = tokens[:, self.full_shape.layer_slice(layer + 1)].unflatten(1, (-1, fan_out))
            below = below.gather(1, slot[..., None].expand(-1, -1, fan_out))  # [B, P, f]
            num = self.shape.num_neighbors[layer]
            choice, weight = self.sampler.sample(h, rows[-1], below, below < null, num)
            rows.append(below.gather(2, choice).flatten(1))
            weights.append(weight.flatten(1))
            slot = (slot[..., None] * fan_out + choice).flatten(1)
        return torch.cat(rows, dim=1), torch.cat(weights, dim=1)


class FastGCN(TreeGNN):
    r"""GCN with importance sampling per layer (Chen et al., 2018).

    Candidates are the parents of a layer in all trees of the batch, and all
    their real children. Each slot is a node of its own, as in duplicate
    encoding, whether its token is a node or a cluster. The original, the
    quantized and the generated graph are thus sampled in the same way.

    The number of draws :math:`t`, with replacement, is :obj:`num_sampled`
    times the number of real parents. The probability :math:`q` of a candidate
    is proportional to the squared norm of its column in the normalised
    adjacency, that is to :math:`1 / (1 + d)^2` with the :math:`d` children of
    its parent. A draw has the weight :math:`1 / (t q)`, so that the sum is an
    unbiased estimate of the aggregation of GCN, in training and at test time.
    A parent without any draws aggregates nothing. Each convolution has draws
    of its own.

    Args:
        convs (list[SampledMeanConv]): One convolution per layer of the tree.
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
        convs: Sequence[SampledMeanConv],
        shape: TreeShape,
        num_sampled: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(convs, shape, dropout)
        self.num_draws = [num_sampled or fan_out for fan_out in shape.num_neighbors]

    def forward(self, x: Rows, tokens: Tensor) -> Tensor:
        return self.run(x, tokens, self.sample(*self.candidates(x, tokens)))[0]

    def candidates(self, x: Rows, tokens: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        r"""For each layer of parents, the entries of the normalised adjacency,
        ``[B, P, 1 + f]``, and the probabilities up to a factor.
        """
        rows = adjacency(tokens < x.size(0), self.shape)
        return rows, [p**2 for p in rows]

    def sample(self, rows: list[Tensor], chances: list[Tensor]) -> list[list[Tensor]]:
        r"""Samples the weights for all convolutions and layers, see
        :meth:`TreeGNN.run`.
        """
        layers = list(zip(rows, chances, self.num_draws, strict=True))
        return [
            [p * importance_weights(chance, num) for p, chance, num in layers[:depth]]
            for depth in range(len(layers), 0, -1)
        ]


class ASGCN(FastGCN):
    r"""GCN with a learned sampler per layer (AS-GCN, Huang et al., 2018).

    It differs from :class:`FastGCN` in the probabilities: they are
    proportional to :math:`p(u|v) (1 + |g(x_u)|)` with :math:`p(u|v) =
    1 / (1 + d_v)` and a learned linear function :math:`g`. The one keeps all
    probabilities positive and the weights bounded. The draws go from the root
    down: candidates are the slots that were drawn before, and their children.

    The sampler is trained on the variance of the estimate at the roots. Its
    mean is added to the loss, times :obj:`variance_weight`. The variance is
    computed from all candidates, not estimated.

    Args:
        in_channels (int): The number of features.
        convs (list[SampledMeanConv]): One convolution per layer of the tree.
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
        convs: Sequence[SampledMeanConv],
        shape: TreeShape,
        num_sampled: int | None = None,
        dropout: float = 0.5,
        variance_weight: float = 0.5,
    ) -> None:
        super().__init__(convs, shape, num_sampled, dropout)
        self.score = nn.Linear(in_channels, 1, bias=False)
        self.variance_weight = variance_weight

    def loss(self, x: Rows, tokens: Tensor, y: Tensor) -> Tensor:
        rows, chances = self.candidates(x, tokens)
        logits, inputs = self.run(x, tokens, self.sample(rows, chances))
        spread = estimator_variance(inputs, rows[0][:, 0], chances[0][:, 0], self.num_draws[0])
        return F.cross_entropy(logits, y) + self.variance_weight * spread.mean()

    def candidates(self, x: Rows, tokens: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        rows = adjacency(tokens < x.size(0), self.shape)
        score = lookup(1 + linear(x, self.score).abs(), tokens).squeeze(-1)
        scores = parents_with_children(score, self.shape)
        return rows, [p * s for p, s in zip(rows, scores, strict=True)]

    def sample(self, rows: list[Tensor], chances: list[Tensor]) -> list[list[Tensor]]:
        weights: list[list[Tensor]] = []
        drawn = [torch.ones_like(rows[0][:, :, 0], dtype=torch.bool)]  # the roots
        for depth in range(1, len(rows) + 1):
            step, reached = [], [torch.zeros_like(drawn[0])]
            for layer in range(depth):
                chance = chances[layer].detach() * drawn[layer][..., None]
                step.append(rows[layer] * importance_weights(chance, self.num_draws[layer]))
                reached[layer] = reached[layer] | (step[layer][:, :, 0] > 0)
                reached.append((step[layer][:, :, 1:] > 0).flatten(1))
            weights.insert(0, step)
            drawn = reached
        return weights


def adjacency(real: Tensor, shape: TreeShape) -> list[Tensor]:
    r"""The normalised adjacency :math:`1 / (1 + d)` between the parents of
    each layer and themselves and their children, ``[B, P, 1 + f]``.
    """
    members = parents_with_children(real, shape)
    return [m / m.sum(dim=2, keepdim=True).clamp(min=1) for m in members]


def importance_weights(chance: Tensor, num: int) -> Tensor:
    r"""Draws candidates with replacement and weights each draw by
    :math:`1 / (t q)`. The expected weight of each candidate is one.

    Args:
        chance (torch.Tensor): The probabilities up to a factor,
            ``[B, P, 1 + f]``; zero where there is no candidate.
        num (int): The number of draws per parent that has candidates.
    """
    total = num * int((chance > 0).any(dim=2).sum())
    position = sample_categorical(chance.flatten(), total)
    count = torch.bincount(position, minlength=chance.numel()).view_as(chance)
    expected = chance * (total / chance.sum().clamp(min=1e-20))
    return count / expected.clamp(min=1e-20)


def estimator_variance(h: Tensor, p: Tensor, chance: Tensor, num: int) -> Tensor:
    r"""The variance of the estimated aggregation at each root, ``[B, C]``.

    Args:
        h (torch.Tensor): The root and its children, ``[B, 1 + f, C]``.
        p (torch.Tensor): Their entries in the normalised adjacency,
            ``[B, 1 + f]``.
        chance (torch.Tensor): Their probabilities up to a factor.
        num (int): The number of draws per root.
    """
    q = (chance / chance.sum()).clamp(min=1e-20)
    mean = (p[..., None] * h).sum(dim=1)
    square = ((p**2 / q)[..., None] * h**2).sum(dim=1)
    return (square - mean**2) / (num * h.size(0))
