r"""A sample of edges in which no node has more than a few parents."""

from __future__ import annotations

import torch
from torch import Tensor


def cap_parents(
    edge_index: Tensor,
    num_nodes: int,
    max_parents: int,
    max_children: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Keeps random edges, so that each node is a child of at most
    :obj:`max_parents` nodes, and each node has at most :obj:`max_children`.

    Computation graphs that are unrolled from these edges, whichever of the
    children they take, hold a node as often as
    :class:`~torch_geometric_cgt.privacy.CappedSample` says and no more.
    Parallel edges count once each.

    Args:
        edge_index (torch.Tensor): Edges from child to parent, ``[2, E]``.
        num_nodes (int): The number of nodes.
        max_parents (int): The largest number of edges out of a node.
        max_children (int): The largest number of edges into a node.
        generator (torch.Generator, optional): The source of randomness.
            (default: :obj:`None`)
    """
    order = torch.randperm(edge_index.size(1), generator=generator)
    edge_index = edge_index[:, order]
    # A child keeps edges to parents that have few others first: more trees stay whole.
    in_degree = torch.bincount(edge_index[1], minlength=num_nodes)
    crowded = in_degree[edge_index[1]] > max_children
    edge_index = edge_index[:, crowded.long().argsort(stable=True)]
    for end, most in ((0, max_parents), (1, max_children)):
        edge_index = edge_index[:, _rank(edge_index[end]) < most]
    return edge_index


def _rank(key: Tensor) -> Tensor:
    r"""How many equal entries come before each, ``[E]``."""
    ordered, order = key.sort(stable=True)
    place = torch.arange(key.numel())
    first = torch.searchsorted(ordered, ordered)
    return torch.empty_like(place).index_copy_(0, order, place - first)
