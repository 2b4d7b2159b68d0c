r"""Parts of a graph with few edges between them, in plain torch."""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor

from torch_geometric_cgt.sampler.neighbors import InNeighbors

SLACK = 1.1  # the largest part, as a multiple of the mean
SWEEPS = 10


def partition(
    graph: InNeighbors, num_parts: int, generator: torch.Generator | None = None
) -> Tensor:
    r"""Divides the nodes into parts of similar size, along the edges.

    Parts grow together from random nodes, a hop at a time, until they are full
    or shut in; nodes that were not reached are new starts. Then nodes move to
    the part where most of their neighbours are, as long as it has room: no
    part grows beyond 1.1 times the mean. The direction of edges plays no role.
    This is no METIS, which coarsens the graph first and moves nodes at every
    scale.

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
    largest = ceil(SLACK * graph.num_nodes / num_parts)
    for _ in range(SWEEPS):
        _improve(both, part, num_parts, largest, generator)
    return part


def _grow(graph: InNeighbors, num_parts: int, generator: torch.Generator | None) -> Tensor:
    device = graph.ptr.device
    part = torch.full((graph.num_nodes,), -1, device=device)
    room = torch.full((num_parts,), ceil(graph.num_nodes / num_parts), device=device)
    starts = 1  # of each part; doubled, so that many small components take few rounds
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
    # The number of neighbours that each node has in each part where it has any.
    pair, count = torch.unique(graph.target * num_parts + part[graph.source], return_counts=True)
    node, other = pair // num_parts, pair % num_parts
    at_home = torch.zeros_like(part)
    mine = other == part[node]
    at_home[node[mine]] = count[mine]
    gain = count - at_home[node]
    # Half of the nodes stay where they are, lest neighbours swap places for ever.
    moves = torch.rand(part.numel(), device=part.device, generator=generator) < 0.5
    best = torch.argsort(gain, descending=True, stable=True)
    best = best[(gain[best] > 0) & moves[node[best]]]
    room = (largest - torch.bincount(part, minlength=num_parts)).clamp(min=0)
    _move(part, node[best], other[best], room)


def _move(part: Tensor, node: Tensor, wish: Tensor, room: Tensor) -> Tensor:
    r"""Moves nodes into parts with room, in the order given, each node by its
    first wish alone. Returns the nodes that moved.
    """
    first = _rank_among_equals(node) == 0
    node, wish = node[first], wish[first]
    fits = _rank_among_equals(wish) < room[wish]
    node, wish = node[fits], wish[fits]
    part[node] = wish
    room -= torch.bincount(wish, minlength=room.numel())
    return node


def _rank_among_equals(value: Tensor) -> Tensor:
    r"""How many equal values stand before each value."""
    ordered, order = torch.sort(value, stable=True)
    rank = torch.empty_like(value)
    rank[order] = torch.arange(value.numel(), device=value.device) - torch.searchsorted(
        ordered, ordered
    )
    return rank


def _shuffled(value: Tensor, generator: torch.Generator | None) -> Tensor:
    return value[torch.randperm(value.numel(), generator=generator, device=value.device)]
