r"""ClusterGCN: trees inside the parts of a partition, which METIS or plain torch finds."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData
from torch_geometric.utils import remove_self_loops, to_undirected

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.sampler.subgraphs import (
    check_backend,
    from_pyg,
    group_by,
    sample_trees_within,
)
from torch_geometric_cgt.utils.checks import check_positive
from torch_geometric_cgt.utils.rows import rank_among_equals

MAX_PART_SIZE = 1.1  # The size of the largest part, as a multiple of the mean.
NUM_SWEEPS = 10


@dataclass(frozen=True)
class ClusterSampler:
    r"""Samples trees inside the subgraphs of `"Cluster-GCN"
    <https://arxiv.org/abs/1905.07953>`_.

    The nodes are partitioned such that few edges run between parts. A subgraph
    is one part, or several random parts, with all edges of the graph between
    its nodes. Inside its subgraph, a node has all its neighbours, or as many
    as its fan-out (see :class:`SubgraphSampler`).

    PyG's :class:`~torch_geometric.loader.ClusterData` finds the parts with
    METIS, which comes with :obj:`pyg-lib`, or with :obj:`torch-sparse` if that
    was built with it. Without them, a simpler method in plain torch finds
    other parts (see :meth:`partition`). One part needs neither.

    Args:
        num_parts (int, optional): The number of parts. By default, one for
            every 500 nodes. (default: :obj:`None`)
        batch_size (int, optional): The number of parts that are joined to a
            subgraph. (default: :obj:`1`)
        backend (str, optional): :obj:`'pyg'`, :obj:`'torch'`, or
            :obj:`'auto'`: PyG if METIS is installed. (default: :obj:`'auto'`)
    """

    num_parts: int | None = None
    batch_size: int = 1
    backend: str = 'auto'

    def __post_init__(self) -> None:
        check_positive('batch_size', self.batch_size)
        if self.num_parts is not None:
            check_positive('num_parts', self.num_parts)
        check_backend(self.backend)

    def __call__(
        self,
        graph: InNeighbors,
        root: Tensor,
        shape: TreeShape,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        num_parts = self.num_parts or max(1, graph.num_nodes // 500)
        if num_parts > graph.num_nodes:
            raise ValueError(
                f"'num_parts' must not exceed the number of nodes "
                f'(got {num_parts} parts of {graph.num_nodes} nodes)'
            )
        part: Tensor | None = torch.zeros_like(graph.ptr[:-1])
        if num_parts > 1:
            part = from_pyg(
                lambda: _metis(graph, num_parts),
                self.backend,
                'METIS from pyg-lib, or from torch-sparse built with it',
            )
        if part is None:
            part = partition(graph, num_parts, generator)
        order = torch.randperm(num_parts, generator=generator, device=part.device)
        batch = order[part] // self.batch_size
        node, sizes = group_by(batch, -(-num_parts // self.batch_size))
        return sample_trees_within(graph, node.split(sizes), root, shape, generator)


def _metis(graph: InNeighbors, num_parts: int) -> Tensor:
    edge_index = remove_self_loops(torch.stack([graph.source, graph.target]).cpu())[0]
    data = Data(
        edge_index=to_undirected(edge_index, num_nodes=graph.num_nodes),  # METIS expects it
        num_nodes=graph.num_nodes,
        n_id=torch.arange(graph.num_nodes),
    )
    clusters = ClusterData(data, num_parts, log=False)
    part = torch.empty(graph.num_nodes, dtype=torch.long)
    for i in range(num_parts):
        part[clusters[i].n_id] = i
    return part.to(graph.ptr.device)


def partition(
    graph: InNeighbors, num_parts: int, generator: torch.Generator | None = None
) -> Tensor:
    r"""Divides the nodes into parts of similar size, along the edges.

    All parts grow from random nodes, one hop at a time, until they are full or
    have no free neighbours. Nodes that are left over become new starts. Nodes
    then move to the part of most of their neighbours if it has room, where no
    part exceeds 1.1 times the mean size. The direction of edges is ignored.
    METIS finds better parts, since it coarsens the graph and moves nodes at
    every scale.

    Args:
        graph (InNeighbors): The graph.
        num_parts (int): The number of parts, at most the number of nodes.
        generator (torch.Generator, optional): The source of randomness.

    Returns:
        The part of each node, ``[N]``.
    """
    ends = torch.stack([graph.source, graph.target])
    both = InNeighbors.from_edge_index(torch.cat([ends, ends.flip(0)], dim=1), graph.num_nodes)
    part = _grow(both, num_parts, generator)
    largest = ceil(MAX_PART_SIZE * graph.num_nodes / num_parts)
    for _ in range(NUM_SWEEPS):
        _improve(both, part, num_parts, largest, generator)
    return part


def _grow(graph: InNeighbors, num_parts: int, generator: torch.Generator | None) -> Tensor:
    r"""Grows all parts from random nodes."""
    device = graph.ptr.device
    part = torch.full((graph.num_nodes,), -1, device=device)
    room = torch.full((num_parts,), ceil(graph.num_nodes / num_parts), device=device)
    starts = 1  # Per part. It is doubled, so that many small components take few rounds.
    while bool((part < 0).any()):
        free = _shuffled((part < 0).nonzero().view(-1), generator)
        wish = (room > 0).nonzero().view(-1).repeat(starts)[: free.numel()]
        new = _move(part, free[: wish.numel()], wish, room)
        while new.numel() > 0:
            rows = graph.rows(new)
            wish = part[new].repeat_interleave(rows.ptr.diff())
            edge = _shuffled((part[rows.source] < 0).nonzero().view(-1), generator)
            new = _move(part, rows.source[edge], wish[edge], room)
        starts *= 2
    return part


def _improve(
    graph: InNeighbors,
    part: Tensor,
    num_parts: int,
    largest: int,
    generator: torch.Generator | None,
) -> None:
    r"""Moves nodes to the part of most of their neighbours, in place."""
    # The number of neighbours of each node in each part, where there are any.
    pair, count = torch.unique(graph.target * num_parts + part[graph.source], return_counts=True)
    node, other = pair // num_parts, pair % num_parts
    inside = torch.zeros_like(part)
    own = other == part[node]
    inside[node[own]] = count[own]
    gain = count - inside[node]
    # A random half of the nodes stays, so that neighbours do not swap parts forever.
    moves = torch.rand(part.numel(), device=part.device, generator=generator) < 0.5
    best = torch.argsort(gain, descending=True, stable=True)
    best = best[(gain[best] > 0) & moves[node[best]]]
    room = (largest - torch.bincount(part, minlength=num_parts)).clamp(min=0)
    _move(part, node[best], other[best], room)


def _move(part: Tensor, node: Tensor, wish: Tensor, room: Tensor) -> Tensor:
    r"""Moves nodes into the parts in :obj:`wish` that have room, in this order. For
    each node, only its first wish counts. Returns the nodes that moved.
    """
    first = rank_among_equals(node) == 0
    node, wish = node[first], wish[first]
    fits = rank_among_equals(wish) < room[wish]
    node, wish = node[fits], wish[fits]
    part[node] = wish
    room -= torch.bincount(wish, minlength=room.numel())
    return node


def _shuffled(value: Tensor, generator: torch.Generator | None) -> Tensor:
    return value[torch.randperm(value.numel(), generator=generator, device=value.device)]
