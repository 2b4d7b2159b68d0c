r"""In-neighbours of a graph: in memory, or, for a large graph, in memory-mapped files that all
processes write together.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data.in_neighbors import BLOCK_EDGES, InNeighbors
from torch_geometric_cgt.utils.distributed import World

MAX_EDGES_IN_MEMORY = 1 << 27  # sorting takes 24 bytes per edge
RANGE_EDGES = 1 << 24  # edges that a process sorts at a time
PTR, SOURCE = 'ptr.npy', 'source.npy'


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
