r"""A private tree model that learns which labels are neighbours from capped counts of edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.isotonic import isotonic_regression
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.edge_counts import EdgeCaps, EdgeCounter
from torch_geometric_cgt.models.noisy_tables import back_off
from torch_geometric_cgt.models.scenes import (
    ROOTS,
    as_distribution,
    draw_columns,
    label_evidence,
)
from torch_geometric_cgt.models.tree_model import (
    STAGE,
    FitContext,
    TreeModel,
    TreeSource,
    with_noise,
)
from torch_geometric_cgt.privacy import Entry, Gaussian, Queries
from torch_geometric_cgt.privacy.units import HISTOGRAM

RATES, NUMBERS = 'edges at several rates', 'numbers of children'
LABELS, MUTUAL, WEDGES = 'labels of neighbours', 'mutual edges', 'pairs of children'
# Shares of the budget of the model.
SHARES = {ROOTS: 0.42, LABELS: 0.32, NUMBERS: 0.12, WEDGES: 0.07, RATES: 0.05, MUTUAL: 0.02}
FEWEST_EDGES = 0.02  # smallest mean number of children that is assumed
HALF_FULL = 0.2  # edges per node and cap, up to which caps hardly bind
# Mean and spread of 1 / (1 + concentration) over graphs with homophily.
USUAL_EXCESS, USUAL_SPREAD = 0.25, 0.12
LEAST_SPREAD = 0.3  # smallest concentration: all children of a node nearly agree
MOST_SPREAD = 1e4  # largest: children are independent given the label of their parent


class PrivateMixing(TreeModel):
    r"""A model that samples trees from few private numbers of the whole graph.

    The label of a child depends on the label of its parent, its token on its own
    label. Both can be learned without computation graphs:

    * How often nodes of a label have each token: a histogram of nodes, which one
      node changes by one.
    * How often two labels are neighbours, how many children nodes have, and how
      much two children of a node agree: counts of edges and of pairs of edges,
      with caps on the weight of each node
      (:class:`~torch_geometric_cgt.models.edge_counts.EdgeCounter`). A node of
      any degree changes such a count by at most its cap.

    A tree is sampled from the root to the leaves. Each node draws a distribution
    of the labels of its children around that of its label, so that neighbourhoods
    differ as they do in the source. If an edge of the source usually has an edge
    in the opposite direction, the parent of a node is among its children, as far
    as there is room for it.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        caps (EdgeCaps or dict, optional): The caps on the weight of a node.
            (default: :obj:`EdgeCaps()`)
        use_edges (bool, optional): Whether to learn from edges. Otherwise, trees
            are roots without children. (default: :obj:`True`)
    """

    name = 'mixing'

    is_fitted: Tensor
    token: Tensor  # [C, m] p(token | label)
    neighbor: Tensor  # [C, C] p(label of a child | label of its parent)
    at_least: Tensor  # [f + 1] share of nodes with at least so many children
    concentration: Tensor  # of the distribution of labels of children around its mean
    degree: Tensor  # mean number of children
    mutual: Tensor  # share of edges with an edge in the opposite direction

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        caps: EdgeCaps | dict[str, Any] | None = None,
        use_edges: bool = True,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.caps = EdgeCaps(**caps) if isinstance(caps, dict) else caps or EdgeCaps()
        self.use_edges = use_edges
        self._entries = plan_mixing(self.caps, num_classes, self.shape, use_edges)
        sizes: dict[str, tuple[int, ...]] = {
            'token': (num_classes, num_tokens),
            'neighbor': (num_classes, num_classes),
            'at_least': (max(self.num_neighbors) + 1,),
            'concentration': (),
            'degree': (),
            'mutual': (),
        }
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.double))
        self.register_buffer('is_fitted', torch.tensor(False))

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), 'caps': vars(self.caps), 'use_edges': self.use_edges}

    def entries(self) -> list[Entry]:
        r"""The mechanisms of :meth:`fit`, for a ledger."""
        return list(self._entries)

    @torch.no_grad()
    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Learns from the nodes and edges of :obj:`source.graph`, with the noise of
        :obj:`context.queries`.
        """
        queries = None if context is None else context.queries
        paid = with_noise(self._entries, () if queries is None else queries.entries)
        graph = source.graph
        if graph is None or queries is None or context is None:
            raise ValueError("The model 'mixing' learns from edges: 'source.graph' is missing")
        label = graph.y.long()
        row = torch.where(label >= 0, label, -1)
        size = (self.num_classes, self.num_tokens)
        pair = torch.where(row >= 0, row * size[1] + graph.token, -1)
        noisy = queries.histogram(ROOTS, pair, math.prod(size)).view(size)
        self.token.copy_(back_off(noisy, queries.sigma(ROOTS)))
        evidence = label_evidence(self.token, as_distribution(noisy.sum(dim=1)))
        # A node without a label counts as the label that its token indicates.
        group = torch.where(label >= 0, label, evidence[graph.token].argmax(dim=1))
        if self.use_edges:
            counter = EdgeCounter(graph.edge_index, group, self.num_classes, self.caps)
            self._fit_edges(counter, graph.num_nodes, noisy.sum(dim=1), queries)
        self.is_fitted.fill_(True)
        self._entries = paid
        return {}

    def _fit_edges(
        self, counter: EdgeCounter, num_nodes: int, frequency: Tensor, queries: Queries
    ) -> None:
        rates = queries.counts(RATES, counter.at_rates())
        self.degree.fill_(mean_degree(rates, num_nodes, self.caps.rates))
        number = queries.counts(NUMBERS, counter.numbers(max(self.num_neighbors)))
        self.at_least.copy_(shares_of_nodes(number, num_nodes))
        both = float(queries.counts(MUTUAL, counter.mutual().view(1)))
        self.mutual.fill_(min(1.0, max(0.0, both / max(float(rates[0]), 1.0))))
        rate = min(1.0, self.caps.edges_per_node / float(self.degree))
        pairs = queries.counts(LABELS, counter.labels(rate)).view(self.neighbor.shape)
        prior = homophily_prior(pairs, as_distribution(frequency))
        self.neighbor.copy_(back_off(pairs, queries.sigma(LABELS), prior))
        wedges = queries.counts(WEDGES, counter.wedges(rate), counter.rounding)
        sigma, weight = queries.sigma(WEDGES), pairs.sum(dim=1)
        self.concentration.fill_(concentration_of(wedges, sigma, self.neighbor, weight))

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        if not bool(self.is_fitted):
            raise ValueError('The model is not fitted: call fit() first')
        labels = y.long()[:, None]
        tokens = [draw_columns(self.token, labels, generator)]
        real = torch.ones_like(labels, dtype=torch.bool)
        for layer, fan_out in enumerate(self.num_neighbors):
            number = self._draw_numbers(real, fan_out, layer > 0, generator)
            slot = torch.arange(fan_out, device=y.device)
            children = self._draw_labels(labels, fan_out, generator)  # [B, P, f]
            token = draw_columns(self.token, children, generator)
            if layer > 0:
                token = self._walk_back(token, tokens, number, fan_out, generator)
            real = slot < number[:, :, None]
            tokens.append(token.masked_fill(~real, self.num_tokens).flatten(1))
            labels, real = children.flatten(1), real.flatten(1)
        return torch.cat(tokens, dim=1)

    def _numbers(self, fan_out: int, of_child: bool) -> Tensor:
        r"""The distribution of the number of children, ``[fan_out + 1]``. A node with more
        edges is more often a child.
        """
        below = torch.cat([self.at_least[1 : fan_out + 1], self.at_least.new_zeros(1)])
        share = (self.at_least[: fan_out + 1] - below).clamp(min=0)
        if of_child:
            share = share * self._degrees(fan_out)
            share[1] += 1e-12  # a child has at least the edge to its parent
        return share / share.sum()

    def _degrees(self, fan_out: int) -> Tensor:
        r"""The mean degree of nodes with 0, 1, ..., at least :obj:`fan_out` children."""
        degrees = torch.arange(fan_out + 1, dtype=torch.double)
        full = float(self.at_least[fan_out])
        rest = float(self.degree) - float(self.at_least[1:fan_out].sum()) + (fan_out - 1) * full
        degrees[-1] = max(fan_out, rest / full) if full > 1e-3 else fan_out
        return degrees

    def _draw_numbers(
        self, real: Tensor, fan_out: int, of_child: bool, generator: torch.Generator | None
    ) -> Tensor:
        if not self.use_edges:
            return torch.zeros_like(real, dtype=torch.long)
        table = self._numbers(fan_out, of_child)[None]
        number = draw_columns(table, torch.zeros_like(real, dtype=torch.long), generator)
        return number.masked_fill(~real, 0)

    def _draw_labels(
        self, parent: Tensor, fan_out: int, generator: torch.Generator | None
    ) -> Tensor:
        r"""Draws the labels of all child slots, ``[B, P, f]``, from a Dirichlet-multinomial
        distribution per parent. It is drawn as an urn: a child repeats the label of an
        earlier one, or has a new draw.
        """
        shape = (*parent.shape, fan_out)
        fresh = draw_columns(self.neighbor, parent[:, :, None].expand(shape), generator)
        chance, place = torch.rand((2, *shape), dtype=torch.double, generator=generator)
        out = fresh.clone()
        for i in range(1, fan_out):
            repeats = chance[..., i] < i / (i + self.concentration)
            earlier = out.gather(2, (place[..., i : i + 1] * i).long())[..., 0]
            out[..., i] = torch.where(repeats, earlier, fresh[..., i])
        return out

    def _walk_back(
        self,
        token: Tensor,
        tokens: list[Tensor],
        number: Tensor,
        fan_out: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Puts the token of the grandparent into one child slot, where an edge leads back."""
        above = tokens[-2].repeat_interleave(tokens[-1].size(1) // tokens[-2].size(1), dim=1)
        chance, place = torch.rand((2, *number.shape), dtype=torch.double, generator=generator)
        room = fan_out / self._degrees(fan_out).clamp(min=fan_out)
        back = (chance < self.mutual * room[number]) & (number > 0)
        place = (place * number).long().masked_fill(~back, -1)
        slot = torch.arange(fan_out, device=token.device)
        return torch.where(slot == place[:, :, None], above[:, :, None], token)


def plan_mixing(
    caps: EdgeCaps, num_classes: int, shape: TreeShape, use_edges: bool = True
) -> list[Entry]:
    r"""One entry per query, with the largest change by each unit, a share of the
    budget and noise that is not calibrated yet.

    Args:
        caps (EdgeCaps): The caps on the weight of a node.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        use_edges (bool, optional): Whether edges are read.
            (default: :obj:`True`)
    """
    changes = {
        ROOTS: HISTOGRAM,
        RATES: caps.change_of_rates(),
        NUMBERS: caps.change_of_numbers(max(shape.num_neighbors)),
        MUTUAL: caps.change_of_mutual(),
        LABELS: caps.change_of_labels(num_classes),
        WEDGES: caps.change_of_wedges(),
    }
    names = list(changes) if use_edges else [ROOTS]
    return [Entry(STAGE, name, changes[name], Gaussian(1.0), share=SHARES[name]) for name in names]


def mean_degree(rates: Tensor, num_nodes: int, cap: int) -> float:
    r"""The mean number of edges into a node, from noisy counts of edges that are
    kept with probability 1, 1/2, 1/4, ...: the first rate at which caps hardly
    bind decides.

    Args:
        rates (torch.Tensor): The noisy counts, ``[R]``.
        num_nodes (int): The number of nodes.
        cap (int): The cap of a node.
    """
    share = (rates / num_nodes).clamp(min=0)
    for i, value in enumerate(share.tolist()):
        if value < HALF_FULL * cap or i + 1 == share.numel():
            break
    return max(FEWEST_EDGES, value * 2**i)


def shares_of_nodes(number: Tensor, num_nodes: int) -> Tensor:
    r"""The share of nodes with at least 0, 1, ..., f children, from noisy counts
    of the children up to 1, ..., f of every node.

    Args:
        number (torch.Tensor): The noisy counts, ``[f]``.
        num_nodes (int): The number of nodes.
    """
    steps = np.diff(number.numpy(), prepend=0.0) / num_nodes
    falling = isotonic_regression(steps, y_min=0.0, y_max=1.0, increasing=False)
    return torch.from_numpy(np.concatenate([[1.0], falling]))


def homophily_prior(pairs: Tensor, frequency: Tensor) -> Tensor:
    r"""The distribution of labels of children if only the share of equal labels
    and the frequency of labels are known, ``[C, C]``.

    Args:
        pairs (torch.Tensor): Noisy counts of the labels of children and
            parents, ``[C, C]``.
        frequency (torch.Tensor): The frequency of labels, ``[C]``.
    """
    size = len(pairs)
    equal = (pairs.diagonal().sum() / pairs.sum().clamp(min=1)).clamp(0.01, 0.99)
    others = frequency.clamp(min=1e-6).expand(size, size).clone().fill_diagonal_(0)
    others = others / others.sum(dim=1, keepdim=True) if size > 1 else others
    share = equal if size > 1 else torch.ones_like(equal)
    return share * torch.eye(size, dtype=pairs.dtype) + (1 - share) * others


def concentration_of(wedges: Tensor, sigma: float, neighbor: Tensor, weight: Tensor) -> float:
    r"""The concentration :math:`a` of the Dirichlet distribution of the labels of
    children, by the method of moments. Two children agree with probability
    :math:`(1 + a \, q) / (1 + a)`, where :math:`q` is the probability for
    independent children.

    Caps bind for pairs of the same kind and for all pairs. So the ratio of equal
    pairs and all pairs is too large, one minus the ratio of different pairs and
    all pairs is too small, and their mean is used. Under much noise, the result
    backs off to the usual value of graphs with homophily.

    Args:
        wedges (torch.Tensor): The noisy numbers of pairs of children with equal
            labels, with different labels, and of all pairs, ``[3]``.
        sigma (float): The noise of all three.
        neighbor (torch.Tensor): The distribution of labels of children given
            the label of the parent, ``[C, C]``.
        weight (torch.Tensor): The noisy number of edges per label of the
            parent, ``[C]``.
    """
    weight = weight.clamp(min=0) + 1e-9
    independent = float((weight / weight.sum() * neighbor.square().sum(dim=1)).sum())
    equal, different, total = wedges.tolist()
    excess, precision = 0.0, 0.0
    if total > 3 * sigma:
        share = (1 + (equal - different) / total) / 2
        excess = (share - independent) / max(1 - independent, 1e-9)  # 1 / (1 + a)
        precision = (total * max(1 - independent, 1e-9) / sigma) ** 2
    prior = USUAL_SPREAD**-2
    excess = (excess * precision + USUAL_EXCESS * prior) / (precision + prior)
    return min(MOST_SPREAD, max(LEAST_SPREAD, 1 / max(excess, 1e-9) - 1))
