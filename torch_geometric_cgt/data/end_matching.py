r"""Pairs edge ends whose nodes ask for each other, and closes triangles."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data.edge_ends import EdgeEnds
from torch_geometric_cgt.utils.rows import rank_among_equals

# How well each of two ends must fit the wish of the other, and how often to try.
STRICT = (('token, size', 'token, size', 8), ('token', 'token', 8), ('token', 'group', 8))
LOOSE = (
    ('group, size', 'group, size', 3),
    ('group', 'group', 3),
    ('token', 'label', 3),
    ('group', 'label', 3),
    ('label', 'label', 4),
    ('label', 'any', 3),
    ('any', 'any', 6),
)
CLOSING = (('token', 8), ('group', 8), ('label', 8))


class EndMatching:
    r"""Pairs edge ends, in rounds. No pair is a self-loop or repeats an edge.

    Args:
        ends (EdgeEnds): The ends.
        num_nodes (int): The number of nodes.
        generator (torch.Generator): The source of randomness.
    """

    def __init__(self, ends: EdgeEnds, num_nodes: int, generator: torch.Generator) -> None:
        self.ends = ends
        self.num_nodes = num_nodes
        self.generator = generator
        self.is_free = torch.ones(len(ends), dtype=torch.bool)
        self.edges = ends.owner[:0]  # first node * num_nodes + second node, sorted
        self.asking = ends.owner[:0]  # the end that asked for each edge

    def match(self, closing_share: float) -> None:
        r"""Pairs all ends that can be paired.

        Args:
            closing_share (float): The share of ends that are kept back at
                first, to close triangles.
        """
        uniform = torch.rand(len(self.ends), generator=self.generator)
        kept = uniform < closing_share
        self.is_free &= ~kept
        self._pair(STRICT)
        self.is_free |= kept
        if closing_share > 0:
            for level, times in CLOSING:
                for _ in range(times):
                    self._close(level)
            self._pair(STRICT)
        self._pair(LOOSE)

    def edge_index(self) -> Tensor:
        r"""The edges in both directions, sorted, ``[2, E]``."""
        code = self._directed().sort().values
        return torch.stack([code // self.num_nodes, code % self.num_nodes])

    def asking_end(self) -> Tensor:
        r"""The end that asked for each edge of :meth:`edge_index`, ``[E]``. It is the
        same one in both directions.
        """
        return self.asking.repeat(2)[self._directed().argsort()]

    def _directed(self) -> Tensor:
        r"""The codes of the edges in one direction, then in the other one."""
        code = self.edges
        flipped = code % self.num_nodes * self.num_nodes + code // self.num_nodes
        return torch.cat([code, flipped])

    def _pair(self, levels: tuple[tuple[str, str, int], ...]) -> None:
        for near, far, times in levels:
            for _ in range(times):
                free = self._shuffled()
                asking, answering = free[: free.numel() // 2], free[free.numel() // 2 :]
                far_codes = self.ends.own[far], self.ends.wish[far]
                base = 1 + max((int(code.max()) for code in far_codes if code.numel()), default=0)
                left = self.ends.wish[near][asking] * base + self.ends.own[far][asking]
                right = self.ends.own[near][answering] * base + self.ends.wish[far][answering]
                a, b = pair_equal(left, right)
                self._add(asking[a], answering[b])

    def _close(self, level: str) -> None:
        r"""Each free end proposes an edge to a neighbour of a neighbour that has a
        free end. It is made if each fits the wish of the other.
        """
        free = self._shuffled()
        start, neighbor = self._neighbors()
        owner, order = self.ends.owner[free].sort(stable=True)
        free = free[order]
        free_start = torch.searchsorted(owner, torch.arange(self.num_nodes + 1))
        a, via = self._draw(free, owner, start)
        a, other = self._draw(a, neighbor[via], start)
        other = neighbor[other]
        a, b = self._draw(a, other, free_start)
        b = free[b]
        own, wish = self.ends.own[level], self.ends.wish[level]
        fits = (wish[a] == own[b]) & (wish[b] == own[a])
        a, b = a[fits], b[fits]
        order = torch.randperm(a.numel(), generator=self.generator)
        a, b = a[order], b[order]
        once = first_use(a, b, len(self.ends))
        self._add(a[once], b[once])

    def _draw(self, end: Tensor, node: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        r"""Draws a position of each node's part of a list, without those ends
        whose node has no part.
        """
        count = start[node + 1] - start[node]
        end, node, count = end[count > 0], node[count > 0], count[count > 0]
        uniform = torch.rand(node.numel(), dtype=torch.float64, generator=self.generator)
        return end, start[node] + (uniform * count).long()

    def _shuffled(self) -> Tensor:
        free = self.is_free.nonzero().view(-1)
        return free[torch.randperm(free.numel(), generator=self.generator)]

    def _neighbors(self) -> tuple[Tensor, Tensor]:
        r"""The start of each node's part of the list of all neighbours, and the list."""
        node, neighbor = self.edge_index()
        return torch.searchsorted(node, torch.arange(self.num_nodes + 1)), neighbor

    def _add(self, a: Tensor, b: Tensor) -> None:
        r"""Makes edges of pairs of ends, except for self-loops and repeated edges. The
        first end of each pair has asked for the edge.
        """
        u, v = self.ends.owner[a], self.ends.owner[b]
        code = torch.minimum(u, v) * self.num_nodes + torch.maximum(u, v)
        code, order = code.sort(stable=True)
        a, b, loop = a[order], b[order], (u == v)[order]
        new = ~loop & ~is_member(code, self.edges)
        new[1:] &= code[1:] != code[:-1]
        self.is_free[a[new]] = False
        self.is_free[b[new]] = False
        self.edges, order = torch.cat([self.edges, code[new]]).sort()
        self.asking = torch.cat([self.asking, a[new]])[order]


def pair_equal(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    r"""Pairs equal values of two lists, each entry at most once and as many as
    possible. Returns the positions in both lists.

    Args:
        left (torch.Tensor): Values, ``[n]``.
        right (torch.Tensor): Values, ``[m]``.
    """
    value = torch.cat([left, right]).unique(return_inverse=True)[1]
    total = value.numel() + 1
    left, right = value[: left.numel()], value[left.numel() :]
    left = left * total + rank_among_equals(left)
    right, position = (right * total + rank_among_equals(right)).sort()
    found = is_member(left, right).nonzero().view(-1)
    return found, position[torch.searchsorted(right, left[found])]


def is_member(value: Tensor, ordered: Tensor) -> Tensor:
    r"""Whether each value occurs in a sorted list."""
    if ordered.numel() == 0:
        return torch.zeros_like(value, dtype=torch.bool)
    at = torch.searchsorted(ordered, value).clamp_(max=ordered.numel() - 1)
    return ordered[at] == value


def first_use(a: Tensor, b: Tensor, size: int) -> Tensor:
    r"""Selects pairs of which no earlier pair holds one of the two entries.

    Args:
        a (torch.Tensor): The first entry of each pair, ``[n]``.
        b (torch.Tensor): The second entry.
        size (int): An upper bound of all entries.
    """
    position = torch.arange(a.numel())
    first = torch.full((size,), a.numel())
    first.scatter_reduce_(0, a, position, 'amin')
    first.scatter_reduce_(0, b, position, 'amin')
    return (first[a] == position) & (first[b] == position)
