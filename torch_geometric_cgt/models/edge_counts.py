r"""Counts of edges and of pairs of children that one node or one edge changes little.

The largest total weight of edges such that no weight exceeds one and no node carries more
than its cap is a function of the graph that changes by at most the cap if a node is removed,
whatever its degree:

* The weights without the edges of the node are still allowed. They are lighter by what the
  node carried, which is at most its cap. So the maximum falls by at most the cap.
* Weights of the smaller graph are weights of the larger one. So the maximum does not rise.

If an edge is removed, the maximum falls by at most one, for the same reasons. The argument
holds for any number of nodes per item, and for caps that differ by the role of a node. It
needs no random order, no sampling of neighbours and no bound on degrees (Kasiviswanathan,
Nissim, Raskhodnikova and Smith, "Analyzing Graphs with Node Differential Privacy", 2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from torch_geometric_cgt.utils.seeds import keyed_uniform

KEY = 0x43475431  # of the thinning of edges, public: the bounds hold for every key
MOST_WEDGES = 40_000  # expected number of pairs of children in the linear program
WEDGES_PER_NODE = 0.25  # expected number per parent, so that caps seldom bind
MOST_CHILDREN = 10_000  # largest expected number of thinned children that are paired
NUM_RATES = 8
ROUNDING = 2.0**-10  # counts of linear programs are rounded down to multiples of this


@dataclass(frozen=True)
class EdgeCaps:
    r"""The caps on the weight of a node in counts of edges, and the change of each
    count by one unit.

    Without caps, counts are exact and a node of any degree can change them by its
    degree. This suits the unit :obj:`"edge"`: an edge changes such counts by two,
    one for each direction.

    Args:
        same (int, optional): For edges between nodes of one label, the cap of a
            node as a child, and as a parent. (default: :obj:`2`)
        other (int, optional): The same for each pair of different labels.
            (default: :obj:`1`)
        rates (int, optional): The same for edges at several rates, and for mutual
            edges. (default: :obj:`2`)
        child (int, optional): For numbers of children, the number of parents that
            a node counts for. (default: :obj:`5`)
        wedges (int, optional): The cap of a node in pairs of children.
            (default: :obj:`3`)
        edges_per_node (float, optional): Labels of neighbours are counted on a
            random part of the edges with so many edges into a node, on average.
            (default: :obj:`3.0`)
        capped (bool, optional): Whether there are caps, except for pairs of
            children, which always have one. (default: :obj:`True`)
    """

    same: int = 2
    other: int = 1
    rates: int = 2
    child: int = 5
    wedges: int = 3
    edges_per_node: float = 3.0
    capped: bool = True

    @classmethod
    def of(cls, num_nodes: int, capped: bool = True) -> EdgeCaps:
        r"""Caps for a graph. Larger caps distort counts less and need more noise, so
        that they grow with the number of nodes, which is public.

        Args:
            num_nodes (int): The number of nodes.
            capped (bool, optional): Whether there are caps.
                (default: :obj:`True`)
        """
        size = math.sqrt(num_nodes)
        return cls(
            rates=round(min(max(size / 25, 2), 20)),
            child=round(min(max(size / 5, 5), 50)),
            capped=capped,
        )

    def change_of_labels(self, num_classes: int) -> dict[str, float]:
        r"""The change of the table of labels of children and parents. A node of
        label :math:`c` is a child in the cells of row :math:`c` and a parent in
        those of column :math:`c`. If its label changes, twice as many cells
        change.

        Args:
            num_classes (int): The number of labels.
        """
        node = math.sqrt((2 * self.same) ** 2 + 2 * (num_classes - 1) * self.other**2)
        return self._bounds(node, math.sqrt(2) * node, 2.0)

    def change_of_numbers(self, fan_out: int) -> dict[str, float]:
        r"""The change of the numbers of children. They depend on no label.

        Args:
            fan_out (int): The largest number of children.
        """
        node = math.sqrt(sum((self.child + j) ** 2 for j in range(1, fan_out + 1)))
        return self._bounds(node, 0.0, 2 * math.sqrt(fan_out))

    def change_of_rates(self) -> dict[str, float]:
        r"""The change of the number of edges at several rates."""
        size = math.sqrt(NUM_RATES)
        return self._bounds(2 * self.rates * size, 0.0, 2 * size)

    def change_of_mutual(self) -> dict[str, float]:
        r"""The change of the number of mutual edges. Without one direction of an
        edge, neither direction is mutual.
        """
        return self._bounds(2.0 * self.rates, 0.0, 2.0)

    def change_of_wedges(self) -> dict[str, float]:
        r"""The change of the numbers of pairs of children with equal labels, with
        different labels, and of all pairs. All pairs that contain an edge contain
        its endpoints. The number of all pairs does not depend on labels.
        """
        one = self.wedges + 2 * ROUNDING  # one step by rounding, one by the solver
        all_, two = math.sqrt(3) * one, math.sqrt(2) * one
        return {'node': all_, 'attributes': two, 'edge': all_, 'frozen_record': all_}

    def _bounds(self, node: float, attributes: float, edge: float) -> dict[str, float]:
        if not self.capped:  # no bound for a node
            return {'edge': edge}
        return {'node': node, 'attributes': attributes, 'edge': edge, 'frozen_record': node}


class EdgeCounter:
    r"""The counts of a graph.

    Edges with equal ends and repeated edges are left out. Thinning keeps an edge
    by a number that depends on its two nodes only.

    Args:
        edge_index (torch.Tensor): Edges from child to parent, ``[2, E]``.
        group (torch.Tensor): The label of each node, or the one that its token
            indicates, ``[N]``.
        num_groups (int): The number of labels.
        caps (EdgeCaps): The caps.
    """

    rounding = ROUNDING

    def __init__(self, edge_index: Tensor, group: Tensor, num_groups: int, caps: EdgeCaps) -> None:
        self.num_nodes, self.num_groups = group.numel(), num_groups
        self.group, self.caps = group, caps
        code = (edge_index[1].long() * self.num_nodes + edge_index[0].long()).unique()
        child, parent = code % self.num_nodes, code // self.num_nodes
        self.edges = torch.stack([child, parent])[:, child != parent]  # sorted by parent

    @cached_property
    def _chance(self) -> Tensor:
        r"""A number of each edge, the same for both directions, ``[E]``."""
        return keyed_uniform(self.edges.sort(dim=0).values, KEY)

    def thinned(self, rate: float) -> Tensor:
        r"""The edges that are kept at a rate, ``[2, e]``."""
        return self.edges[:, self._chance < rate]

    def at_rates(self) -> Tensor:
        r"""The capped numbers of edges at the rates 1, 1/2, 1/4, ..., ``[R]``."""
        cap = self.caps.rates if self.caps.capped else None
        found = [capped_pairs(self.thinned(0.5**i), cap, cap) for i in range(NUM_RATES)]
        return torch.tensor(found)

    def numbers(self, fan_out: int) -> Tensor:
        r"""The numbers of children, where a node counts at most 1, ..., f of its
        own children, ``[f]``.
        """
        cap = self.caps.child if self.caps.capped else None
        found = [capped_pairs(self.edges, cap, j) for j in range(1, fan_out + 1)]
        return torch.tensor(found)

    def mutual(self) -> Tensor:
        r"""The capped number of edges with an edge in the opposite direction."""
        code = self.edges[1] * self.num_nodes + self.edges[0]
        back = self.edges[0] * self.num_nodes + self.edges[1]
        cap = self.caps.rates if self.caps.capped else None
        return torch.tensor(capped_pairs(self.edges[:, torch.isin(back, code)], cap, cap))

    def labels(self, rate: float) -> Tensor:
        r"""The capped number of edges per label of the parent and label of the
        child, ``[C * C]``.
        """
        edges = self.thinned(rate) if self.caps.capped else self.edges
        child, parent = self.group[edges[0]], self.group[edges[1]]
        cell = parent * self.num_groups + child
        order = cell.argsort(stable=True)
        sizes = torch.bincount(cell, minlength=self.num_groups**2)
        found = []
        for i, part in enumerate(edges[:, order].split(sizes.tolist(), dim=1)):
            same = i // self.num_groups == i % self.num_groups
            cap = (self.caps.same if same else self.caps.other) if self.caps.capped else None
            found.append(capped_pairs(part, cap, cap))
        return torch.tensor(found)

    def wedges(self, rate: float) -> Tensor:
        r"""The capped numbers of pairs of children of one parent: with equal labels,
        with different labels, and all, in steps of :obj:`rounding`, ``[3]``.
        """
        first, second, parent = self._pairs_of_children(rate)
        items = torch.stack([first, second, parent], dim=1)
        equal = self.group[first] == self.group[second]
        found = [
            capped_items(part, self.num_nodes, self.caps.wedges)
            for part in (items[equal], items[~equal], items)
        ]
        return torch.tensor([round(value / self.rounding) for value in found])

    def _pairs_of_children(self, rate: float) -> tuple[Tensor, Tensor, Tensor]:
        r"""Random pairs of children of one parent. Which ones are kept depends on their three
        nodes, on public numbers and on the rate. Even the children of a node with an edge to
        all others can be paired in memory.
        """
        child, parent = self.thinned(min(rate, MOST_CHILDREN / self.num_nodes))
        degree = torch.bincount(parent, minlength=self.num_nodes)
        start = degree.cumsum(0) - degree
        repeats = degree[parent]
        first = torch.arange(child.numel()).repeat_interleave(repeats)
        offset = torch.arange(first.numel()) - (repeats.cumsum(0) - repeats)[first]
        second = start[parent[first]] + offset
        keep = second > first
        first, second = first[keep], second[keep]
        triple = torch.stack([child[first], child[second], parent[first]])
        expected = self.caps.edges_per_node**2 / 2  # per parent, if all have the same degree
        share = min(1.0, WEDGES_PER_NODE / expected, MOST_WEDGES / self.num_nodes / expected)
        a, b, c = triple[:, keyed_uniform(triple, KEY + 1) < share]
        return a, b, c


def capped_pairs(pairs: Tensor, first_cap: int | None, second_cap: int | None) -> int:
    r"""The largest number of ordered pairs such that a node is first in at most
    :obj:`first_cap` of them and second in at most :obj:`second_cap`.

    Removing a node changes the result by at most the sum of both caps.
    Removing a pair changes it by at most one. The result is an exact maximum
    flow.

    Args:
        pairs (torch.Tensor): Distinct ordered pairs of nodes, ``[2, E]``.
        first_cap (int, optional): The cap of first nodes; :obj:`None` for none.
        second_cap (int, optional): The cap of second nodes; :obj:`None` for
            none.
    """
    size = pairs.size(1)
    if size == 0 or (first_cap is None and second_cap is None):
        return size
    if first_cap is None or second_cap is None:  # one side only: no flow is needed
        side, cap = (1, second_cap) if first_cap is None else (0, first_cap)
        number = pairs[side].unique(return_counts=True)[1]
        return int(number.clamp(max=cap).sum())
    first, i = np.unique(pairs[0].numpy(), return_inverse=True)
    second, j = np.unique(pairs[1].numpy(), return_inverse=True)
    a, b = len(first), len(second)
    start, end = a + b, a + b + 1
    tail = np.concatenate([np.full(a, start), i, a + np.arange(b)])
    head = np.concatenate([np.arange(a), a + j, np.full(b, end)])
    capacity = np.concatenate([np.full(a, first_cap), np.ones(size), np.full(b, second_cap)])
    graph = csr_matrix((capacity.astype(np.int32), (tail, head)), shape=(end + 1, end + 1))
    return int(maximum_flow(graph, start, end).flow_value)


def capped_items(items: Tensor, num_nodes: int, cap: float) -> float:
    r"""The largest total weight of items, each a tuple of distinct nodes, such
    that no weight exceeds one and no node carries more than :obj:`cap`.

    Removing a node, or all items that contain an edge, changes the exact maximum
    by at most :obj:`cap`. The result of the linear program is rounded down to a
    multiple of :obj:`ROUNDING`, which adds at most :obj:`ROUNDING` to this
    bound.

    Args:
        items (torch.Tensor): The nodes of each item, ``[H, r]``.
        num_nodes (int): The number of nodes.
        cap (float): The largest total weight of a node.
    """
    size, width = items.shape
    if size == 0:
        return 0.0
    load = torch.bincount(items.reshape(-1), minlength=num_nodes)
    crowded = load > cap
    bound = crowded[items].any(dim=1)  # all other items have weight one
    free, inside = int((~bound).sum()), items[bound]
    if inside.size(0) == 0:
        return float(free)
    # Items of uncrowded nodes only use up a part of a cap that is never reached.
    row = inside.reshape(-1)
    column = torch.arange(inside.size(0)).repeat_interleave(width)
    used = crowded[row]
    node, row = row[used].unique(return_inverse=True)
    matrix = csr_matrix(
        (np.ones(row.numel()), (row.numpy(), column[used].numpy())),
        shape=(node.numel(), inside.size(0)),
    )
    found = linprog(
        -np.ones(inside.size(0)),
        A_ub=matrix,
        b_ub=np.full(node.numel(), float(cap)),
        bounds=(0, 1),
        method='highs',
    )
    if found.status != 0:  # cannot happen: zero is allowed, and the total is bounded
        raise RuntimeError(f'The linear program has no solution: {found.message}')
    return float(np.floor((free - found.fun + 1e-6) / ROUNDING) * ROUNDING)
