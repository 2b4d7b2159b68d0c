r"""The profile of a graph: mean degrees of groups of at least k nodes, and the homophily."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data.in_neighbors import InNeighbors

REACH = 2.0  # times the median of the last group: higher degrees are clipped
HEAVIEST = 4.0  # times the mean degree: the largest weight of a node in the homophily
MARGIN = 3.0  # a step is at least as many times what one node moves a mean
SMALLEST_STEP = 1 / 8  # of mean degrees
HOMOPHILY_STEPS = (1 / 128, 1 / 8)  # the smallest and the largest one
TAIL_EXPONENT = 4.0  # of degrees in the last group
LEAST = 5  # nodes of a group, even if k is smaller
BLOCK_NODES = 1 << 16


@dataclass(frozen=True)
class GraphProfile:
    r"""What a release may hold of a source for one joined graph: mean degrees of groups of
    nodes, and the share of edges between equal labels.

    The nodes are sorted by degree and cut into :math:`G` parts of equal size, up to one node,
    of at least :math:`k` nodes each. A part stands for the share :math:`1/G` of all nodes, so
    that no sizes are kept. The mean degree of each part is protected:

    - Degrees of the last group are clipped to twice its median, rounded up to a power of two. A
      node with a much larger degree than all others does not show.
    - If one node has another degree and all others keep theirs, neighbouring groups exchange one
      node. The mean of a group moves by at most :math:`w / k`, where :math:`w` is the distance
      from the largest degree of the group before to the smallest one of the group after. If a node
      is added or removed and the number of groups stays, it moves by at most
      :math:`2 w / (k - 1)`. Means are rounded to a power of two of at least :math:`3 w / k`.

    The homophily is the mean share of neighbours with the label of the node. Nodes weigh as their
    degree, clipped to four times the mean degree. It is rounded by the same rule, and left out
    if the step would be above 1/8.

    A node with all its edges also changes the degrees and shares of its neighbours. The steps do
    not cover this.

    Args:
        mean_degree (torch.Tensor): The rounded mean degree of each group in ascending order,
            ``[G]``.
        homophily (float, optional): The rounded homophily. (default: :obj:`None`)
    """

    mean_degree: Tensor
    homophily: float | None = None

    @property
    def num_groups(self) -> int:
        r"""The number of groups."""
        return self.mean_degree.numel()

    @classmethod
    def of(cls, graph: InNeighbors, node: Tensor, y: Tensor, k: int) -> GraphProfile | None:
        r"""The profile of some nodes; :obj:`None` if there are fewer than a group needs.

        Args:
            graph (InNeighbors): The graph.
            node (torch.Tensor): The nodes, ``[n]``.
            y (torch.Tensor): The label of each node of the graph, negative if it has none, ``[N]``.
            k (int): The minimum number of nodes of a group, see :meth:`least_nodes`.
        """
        if node.numel() < least_nodes(k):
            return None
        degree = graph.degree(node)
        share = torch.cat([_equal_share(graph, part, y) for part in node.split(BLOCK_NODES)])
        return cls(mean_degrees_of_groups(degree, k), rounded_homophily(degree, share))

    def facts(self, num_nodes: int, k: int) -> dict[str, Any]:
        r"""The facts of the card of a release about this profile.

        Args:
            num_nodes (int): The number of nodes that it was computed from.
            k (int): The minimum number of nodes that share a feature vector.
        """
        return {
            'k': least_nodes(k),
            'k_reached': min(group_sizes(num_nodes, k)),
            'num_groups': self.num_groups,
            'homophily': self.homophily,
        }

    def draw(self, order: Tensor, generator: torch.Generator) -> Tensor:
        r"""Draws whole degrees whose distribution is that of the groups, ``[n]``.

        Args:
            order (torch.Tensor): A number for each node, ``[n]``. The node with the smallest one
                gets the smallest degree, and so on.
            generator (torch.Generator): The source of randomness.
        """
        rank = torch.empty_like(order, dtype=torch.long)
        rank[order.argsort(stable=True)] = torch.arange(order.numel())
        value = self._quantile((rank.double() + 0.5) / max(1, order.numel()))
        uniform = torch.rand(value.shape, dtype=torch.float64, generator=generator)
        return (value.floor() + (uniform < value - value.floor())).long()

    def _quantile(self, share: Tensor) -> Tensor:
        r"""The degree below which a share of all nodes lies, not rounded. It has the mean of each
        group, and is linear on both sides of it. The last group is the tail of a power law.
        """
        last = self.num_groups - 1
        position, border = share * self.num_groups, self._borders()
        group = position.long().clamp(max=last)
        inside, mean = position - group, self.mean_degree[group]
        low, high = border[group], border[group + 1]
        below = ((high - mean) / (high - low).clamp(min=1e-12)).where(high > low, 1.0)
        lower = low + (mean - low) * inside / below.clamp(min=1e-12)
        upper = mean + (high - mean) * (inside - below) / (1 - below).clamp(min=1e-12)
        # p(d) ~ (d + c)^-4 from the border on, where c gives it the mean of the group
        stretch = (1 - inside).clamp(min=1e-12).pow(-1 / (TAIL_EXPONENT - 1)) - 1
        tail = low + (mean - low) * (TAIL_EXPONENT - 2) * stretch
        return torch.where(group == last, tail, torch.where(inside < below, lower, upper))

    def _borders(self) -> Tensor:
        r"""The estimated smallest degree of each group, and the mean of the last one,
        ``[G + 1]``. A border is in the middle of two means, but not further above a mean than the
        border below is under it: gaps between the last means are wide.
        """
        mean = self.mean_degree.tolist()
        border = [float(math.floor(mean[0]))]
        for own, following in pairwise(mean):
            border.append(min((own + following) / 2, 2 * own - border[-1]))
        return torch.tensor([*border, mean[-1]], dtype=torch.float64)


def least_nodes(k: int) -> int:
    r"""The minimum number of nodes of a group of degrees: :obj:`k`, and at least five.

    Args:
        k (int): The minimum number of nodes that share a feature vector.
    """
    return max(k, LEAST)


def group_sizes(num_nodes: int, k: int) -> list[int]:
    r"""The number of nodes of each group. It follows from the number of all nodes.

    Args:
        num_nodes (int): The number of nodes.
        k (int): The minimum number of nodes of a group, see :meth:`least_nodes`.
    """
    num_groups = num_nodes // least_nodes(k)
    first = [group * num_nodes // num_groups for group in range(num_groups + 1)]
    return [after - before for before, after in pairwise(first)]


def mean_degrees_of_groups(degree: Tensor, k: int) -> Tensor:
    r"""The mean degree of each group, clipped and rounded, see :class:`GraphProfile`.

    Args:
        degree (torch.Tensor): The degree of each node, ``[n]``.
        k (int): The minimum number of nodes of a group, see :meth:`least_nodes`.
    """
    degree = degree.double().sort().values
    sizes = group_sizes(degree.numel(), k)
    highest = largest_degree(degree[-sizes[-1] :])
    groups = degree.clamp(max=highest).split(sizes)
    before = [float(groups[0][0]), *(float(group[-1]) for group in groups[:-1])]
    after = [*(float(group[0]) for group in groups[1:]), highest]
    means = [
        rounded(float(group.mean()), (high - low) / least_nodes(k), SMALLEST_STEP)
        for group, low, high in zip(groups, before, after, strict=True)
    ]
    # Two groups with different steps can be rounded past each other.
    return torch.tensor(means, dtype=torch.float64).cummax(dim=0).values


def largest_degree(last: Tensor) -> float:
    r"""The degree that higher ones are clipped to: a power of two, which one node rarely changes.

    Args:
        last (torch.Tensor): The degrees of the last group.
    """
    return 2.0 ** math.ceil(math.log2(max(1.0, REACH * float(last.median()))))


def rounded_homophily(degree: Tensor, share: Tensor) -> float | None:
    r"""The homophily, rounded, see :class:`GraphProfile`; :obj:`None` if one node would show.

    Args:
        degree (torch.Tensor): The degree of each node, ``[n]``.
        share (torch.Tensor): The share of its neighbours with its label, not a number if no
            neighbour has a label, ``[n]``.
    """
    known = ~share.isnan()
    degree, share = degree[known].double(), share[known].double()
    if degree.numel() == 0:
        return None
    most = HEAVIEST * float(degree.mean())
    weight = degree.clamp(max=most)
    smallest, largest = HOMOPHILY_STEPS
    moved = most / float(weight.sum())
    if step_of(moved, smallest) > largest:
        return None
    return rounded(float(weight @ share / weight.sum()), moved, smallest)


def rounded(mean: float, moved: float, smallest: float) -> float:
    r"""A mean on the grid of :meth:`step_of`."""
    step = step_of(moved, smallest)
    return math.floor(mean / step + 0.5) * step


def step_of(moved: float, smallest: float) -> float:
    r"""The distance of two points of a grid: a power of two, at least three times what one node
    moves a mean.

    Args:
        moved (float): What one node moves the mean at most.
        smallest (float): The smallest step, a power of two.
    """
    return 2.0 ** math.ceil(math.log2(max(MARGIN * moved, smallest)))


def _equal_share(graph: InNeighbors, node: Tensor, y: Tensor) -> Tensor:
    r"""The share of the labelled neighbours of each node that have its label, ``[n]``."""
    rows = graph.rows(node)
    target, label = rows.target, y[rows.source]
    counts = torch.zeros(2, node.numel(), dtype=torch.float64)
    counts[0].index_add_(0, target, (label == y[node][target]).double())
    counts[1].index_add_(0, target, (label >= 0).double())
    return counts[0] / counts[1]
