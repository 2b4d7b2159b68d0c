r"""In-neighbours of a graph, in memory or in memory-mapped files, and averages over them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.utils.distributed import World

BLOCK_EDGES = 1 << 22  # edges at a time, of a graph that may be memory-mapped
BLOCK_NODES = 1 << 16
MAX_EDGES_IN_MEMORY = 1 << 27  # sorting takes 24 bytes per edge
RANGE_EDGES = 1 << 24  # edges that a process sorts at a time
PTR, SOURCE = 'ptr.npy', 'source.npy'


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

    @classmethod
    def into(cls, edge_index: Tensor, num_nodes: int, node: Tensor) -> InNeighbors:
        r"""Compresses only the edges into some nodes. Edges are visited in blocks,
        so that a memory-mapped :obj:`edge_index` is never copied.

        Args:
            edge_index (torch.Tensor): The edges, ``[2, E]``.
            num_nodes (int): The number of nodes.
            node (torch.Tensor): The nodes. All others have no neighbours in the
                result.
        """
        wanted = torch.zeros(num_nodes, dtype=torch.bool)
        wanted[node] = True
        kept = [
            torch.stack([source, target])[:, wanted[target]]
            for source, target in zip(
                *(ends.split(BLOCK_EDGES) for ends in edge_index), strict=True
            )
        ]
        return cls.from_edge_index(torch.cat([edge_index[:, :0], *kept], dim=1), num_nodes)

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


def average_rows(
    table: Tensor,
    graph: InNeighbors,
    node: Tensor,
    index: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    r"""Averages features over some nodes and their in-neighbours, ``[n, D]``.

    Args:
        table (torch.Tensor): The features, ``[m, D]``.
        graph (InNeighbors): The graph.
        node (torch.Tensor): The nodes, ``[n]``.
        index (torch.Tensor, optional): The row of each node of the graph in
            :obj:`table`, ``[N]``. By default, node :math:`i` has row :math:`i`.
            (default: :obj:`None`)
        out (torch.Tensor, optional): Where to write the result, ``[n, D]``.
            (default: :obj:`None`)
    """
    out = table.new_empty(node.numel(), table.size(1)) if out is None else out
    for rows, block in zip(out.split(BLOCK_NODES), node.split(BLOCK_NODES), strict=True):
        near = graph.rows(block)
        source, own = (near.source, block) if index is None else (index[near.source], index[block])
        total = F.embedding_bag(source.long(), table, near.ptr[:-1], mode='sum')
        rows.copy_(total.add_(table[own.long()]).div_(1 + near.ptr.diff()[:, None]))
    return out


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


def in_neighbors(edge_index: Tensor, num_nodes: int, folder: Path, world: World) -> InNeighbors:
    r"""The in-neighbours of each node, in files if there are very many edges.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        num_nodes (int): The number of nodes.
        folder (Path): See :meth:`mapped_in_neighbors`.
        world (World): The processes.
    """
    if edge_index.size(1) <= MAX_EDGES_IN_MEMORY:
        return InNeighbors.from_edge_index(edge_index, num_nodes)
    with world.connected('sort the edges'):
        return mapped_in_neighbors(edge_index, num_nodes, folder, world)


def mapped_in_neighbors(
    edge_index: Tensor, num_nodes: int, folder: Path, world: World | None = None
) -> InNeighbors:
    r"""Returns what :meth:`InNeighbors.from_edge_index` returns, memory-mapped.

    Nodes are divided into ranges with about as many edges into them. Each process
    takes some ranges, selects their edges, sorts them and writes them into its
    part of the file. It never holds more than one range. All edges are read once
    per range.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``, which may be
            memory-mapped.
        num_nodes (int): The number of nodes.
        folder (Path): Where the files are, on storage that all processes see. If
            an earlier run has finished them, they are not written again.
        world (World, optional): The processes, all of which must call this
            function. (default: :obj:`None`)
    """
    world = world or World()
    if world.by_first(lambda: not folder.is_dir()):
        draft = folder.with_name(f'.{folder.name}.draft')
        ptr = F.pad(_degrees(edge_index[1], num_nodes, world).cumsum(0), (1, 0))
        with world.together(f"write '{folder}'"):
            if world.is_first:
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
                np.save(draft / PTR, ptr.numpy())
                np.lib.format.open_memmap(draft / SOURCE, 'w+', np.int64, (edge_index.size(1),))
        with world.together(f"write '{folder}'"):
            out = np.load(draft / SOURCE, mmap_mode='r+')
            for first, last in _ranges(ptr)[world.rank :: world.size]:
                part = _sources(edge_index, first, last)
                out[int(ptr[first]) : int(ptr[last])] = part.numpy()
            out.flush()
        with world.together(f"write '{folder}'"):
            if world.is_first:
                draft.rename(folder)
    ptr, source = (
        torch.from_numpy(np.load(folder / name, mmap_mode='c')) for name in (PTR, SOURCE)
    )
    return InNeighbors(ptr, source)


def _degrees(target: Tensor, num_nodes: int, world: World) -> Tensor:
    r"""The in-degree of each node. Each process counts its share of the edges."""
    count = torch.zeros(num_nodes, dtype=torch.long)
    for block in target[world.share(target.numel())].split(BLOCK_EDGES):
        count += torch.bincount(block, minlength=num_nodes)
    return world.sum(count)


def _ranges(ptr: Tensor) -> list[tuple[int, int]]:
    r"""Ranges of nodes with at most :obj:`RANGE_EDGES` edges, or of one node."""
    ranges, first, num_nodes = [], 0, ptr.numel() - 1
    while first < num_nodes:
        most = ptr[first] + RANGE_EDGES
        last = max(first + 1, int(torch.searchsorted(ptr, most, right=True)) - 1)
        ranges.append((first, min(last, num_nodes)))
        first = ranges[-1][1]
    return ranges


def _sources(edge_index: Tensor, first: int, last: int) -> Tensor:
    r"""The sources of the edges into a range of nodes, sorted by target, and in the
    order of the edges inside a target.
    """
    sources, targets = [], []
    for source, target in zip(*(ends.split(BLOCK_EDGES) for ends in edge_index), strict=True):
        inside = (target >= first) & (target < last)
        sources.append(source[inside])
        targets.append(target[inside])
    if not sources:
        return edge_index[0]
    return torch.cat(sources)[torch.cat(targets).argsort(stable=True)]
