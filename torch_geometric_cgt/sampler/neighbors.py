r"""In-neighbours of a graph: their storage, averages over them, and uniform samples of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data import TreeShape

BLOCK_PARENTS = 1 << 16  # Parents at a time, so that intermediate results stay in the cache.


@dataclass(frozen=True)
class InNeighbors:
    r"""The in-neighbours of every node in compressed form.

    Messages flow from source to target, so the children of a node in its
    computation graph are the sources of its incoming edges. Parallel edges
    count once each; a self-loop makes a node its own neighbour.
    """

    ptr: Tensor  # [N + 1]
    source: Tensor  # [E] sorted by target, in the order of the edges inside a target
    edge: Tensor | None = None  # [E] position in the given edge_index, where that is kept

    @classmethod
    def from_edge_index(
        cls, edge_index: Tensor, num_nodes: int, keep_edge: bool = False
    ) -> InNeighbors:
        r"""Compresses an :obj:`edge_index` of shape ``[2, E]``."""
        target, edge = torch.sort(edge_index[1], stable=True)
        ptr = torch.searchsorted(target, torch.arange(num_nodes + 1, device=target.device))
        del target  # A gigabyte for a large graph.
        return cls(ptr, edge_index[0][edge], edge if keep_edge else None)

    @property
    def num_nodes(self) -> int:
        return self.ptr.numel() - 1

    def degree(self, node: Tensor) -> Tensor:
        r"""Returns the in-degree of some nodes."""
        return self.ptr[node + 1] - self.ptr[node]

    @property
    def target(self) -> Tensor:
        r"""The target of each edge, beside :obj:`source`."""
        node = torch.arange(self.num_nodes, device=self.ptr.device)
        return node.repeat_interleave(self.ptr.diff())

    def rows(self, node: Tensor) -> InNeighbors:
        r"""Returns only the edges into some nodes. Target :math:`i` of the result
        is :obj:`node[i]`, and has no neighbours if that is :obj:`-1`. Sources
        keep their ids.
        """
        degree = torch.where(node >= 0, self.degree(node.clamp(min=0)), 0)
        ptr = F.pad(degree.cumsum(0), (1, 0))
        shift = (self.ptr[node.clamp(min=0)] - ptr[:-1]).repeat_interleave(degree)
        position = torch.arange(shift.numel(), device=shift.device) + shift
        return InNeighbors(ptr, self.source[position], _at(self.edge, position))

    def keep(self, mask: Tensor) -> InNeighbors:
        r"""Returns the same nodes with only the edges in a mask ``[E]``."""
        ptr = F.pad(mask.cumsum(0), (1, 0))[self.ptr]
        return InNeighbors(ptr, self.source[mask], _at(self.edge, mask))

    def within(self, node: Tensor) -> InNeighbors:
        r"""Returns the subgraph of some nodes, given in ascending order, with all
        edges between them. Node :math:`i` of the result is :obj:`node[i]`.
        """
        rows = self.rows(node)
        inside = rows.keep(torch.isin(rows.source, node))
        return InNeighbors(inside.ptr, torch.searchsorted(node, inside.source), inside.edge)

    def source_of(self, position: Tensor) -> Tensor:
        r"""Returns the source at each position, :obj:`-1` where the position is
        :obj:`-1`. The time does not depend on the number of edges.
        """
        if self.source.numel() == 0:
            return torch.full_like(position, -1)
        # index_select is several times as fast as indexing with brackets.
        source = self.source.index_select(0, position.clamp(min=0).reshape(-1))
        return source.view_as(position).masked_fill_(position < 0, -1)


def _at(edge: Tensor | None, position: Tensor) -> Tensor | None:
    return None if edge is None else edge[position]


def smooth(z: Tensor, graph: InNeighbors | None, num_hops: int = 2) -> Tensor:
    r"""Averages features over each node and its in-neighbours, repeatedly.

    Args:
        z (torch.Tensor): The features, ``[N, D]``.
        graph (InNeighbors, optional): The graph. With :obj:`None`, features
            stay as they are.
        num_hops (int, optional): The number of repetitions.
            (default: :obj:`2`)
    """
    if graph is None:
        return z
    degree = 1 + graph.ptr.diff()
    for _ in range(num_hops):  # An embedding bag sums rows without a copy per edge.
        total = F.embedding_bag(graph.source, z, graph.ptr[:-1], mode='sum')
        z = total.add_(z).div_(degree[:, None])
    return z


def sample_positions(
    degree: Tensor, fan_out: int, generator: torch.Generator | None = None
) -> Tensor:
    r"""Draws :obj:`min(degree, fan_out)` distinct positions below each degree.

    This is Floyd's algorithm for all rows at once: step :math:`i` draws from the
    first :math:`d - s + i + 1` positions, and takes the last of them if the
    drawn one is already taken. Every subset is equally likely, and the memory
    is that of the output.

    Args:
        degree (torch.Tensor): The number of positions of each row, ``[P]``.
        fan_out (int): The number of draws :math:`s`.
        generator (torch.Generator, optional): The source of randomness.

    Returns:
        Positions ``[P, s]``, :obj:`-1` after the last one of a short row.
    """
    # float64: a float32 uniform cannot reach every position of a large degree, and
    # the product of a float64 uniform with a whole number stays below that number.
    uniform = torch.rand(
        (degree.numel(), fan_out), dtype=torch.float64, device=degree.device, generator=generator
    )
    total = degree.double()  # whole numbers, compared and rounded down without conversions
    drawn: list[Tensor] = []
    for i in range(fan_out):
        last = total - (fan_out - i)
        draw = (uniform[:, i] * (last + 1)).floor_()
        if drawn:
            taken = drawn[0] == draw
            for earlier in drawn[1:]:
                taken |= earlier == draw
            draw = torch.where(taken, last, draw)
        drawn.append(draw)
    out = torch.stack(drawn, dim=1).long()
    short = (degree <= fan_out).nonzero().view(-1)  # these rows take all positions, in order
    step = torch.arange(fan_out, device=degree.device)
    return out.index_copy_(0, short, torch.where(step < degree[short, None], step, -1))


def sample_children(
    graph: InNeighbors,
    parent: Tensor,
    fan_out: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Draws distinct incoming edges for each parent.

    Args:
        graph (InNeighbors): The graph.
        parent (torch.Tensor): Node ids ``[P]``, :obj:`-1` where null.
        fan_out (int): The largest number of children.
        generator (torch.Generator, optional): The source of randomness.

    Returns:
        Positions into :obj:`graph.source`, ``[P, fan_out]``, :obj:`-1` where null.
    """
    node = parent.clamp(min=0)
    start = graph.ptr.index_select(0, node)
    degree = (graph.ptr.index_select(0, node + 1) - start).masked_fill_(parent < 0, 0)
    position = sample_positions(degree, fan_out, generator)
    return torch.where(position >= 0, start[:, None] + position, -1)


class TreeSampler(Protocol):
    r"""A callable that samples the computation graph of each root, with the
    arguments and the result of :meth:`sample_trees`.

    Each row holds the nodes of a tree in breadth-first order, :obj:`-1` where
    null. A child is an in-neighbour of its parent. All slots below a null slot
    are null.
    """

    def __call__(
        self,
        graph: InNeighbors,
        root: Tensor,
        shape: TreeShape,
        generator: torch.Generator | None = None,
    ) -> Tensor: ...


def sample_trees(
    graph: InNeighbors,
    root: Tensor,
    shape: TreeShape,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Samples the duplicate-encoded computation graph of each root.

    A node that is reached twice is copied. A parent with fewer neighbours than
    slots is padded with null, and all slots below a null slot are null.

    Args:
        graph (InNeighbors): The graph.
        root (torch.Tensor): The roots, ``[n]``.
        shape (TreeShape): The geometry of the trees.
        generator (torch.Generator, optional): The source of randomness.

    Returns:
        The node id of each breadth-first slot, ``[n, T]``, :obj:`-1` where null.
    """
    layers = [root.view(-1, 1)]
    for fan_out, size in zip(shape.num_neighbors, shape.layer_sizes[1:], strict=True):
        parent = layers[-1].reshape(-1)
        child = graph.source.new_empty(parent.numel(), fan_out)
        # Blocks are drawn one after the other, so their size does not change the trees.
        for rows, block in zip(
            child.split(BLOCK_PARENTS), parent.split(BLOCK_PARENTS), strict=True
        ):
            rows.copy_(graph.source_of(sample_children(graph, block, fan_out, generator)))
        layers.append(child.view(root.numel(), size))
    return torch.cat(layers, dim=1)
