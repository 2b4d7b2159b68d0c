r"""Random edges with bounded degrees, so that a node is in few computation graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.utils.rows import rank_among_equals


def cap_parents(
    edge_index: Tensor,
    num_nodes: int,
    max_parents: int,
    max_children: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Keeps random edges, so that each node is a child of at most
    :obj:`max_parents` nodes, and each node has at most :obj:`max_children`.

    A node is then in at most as many computation graphs of these edges as
    :class:`~torch_geometric_cgt.privacy.CappedSample` states, whichever
    children are sampled. Parallel edges count once each.

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
    # Edges to parents of at most 'max_children' come first, so that more trees stay whole.
    in_degree = torch.bincount(edge_index[1], minlength=num_nodes)
    crowded = in_degree[edge_index[1]] > max_children
    edge_index = edge_index[:, crowded.long().argsort(stable=True)]
    for end, most in ((0, max_parents), (1, max_children)):
        edge_index = edge_index[:, rank_among_equals(edge_index[end]) < most]
    return edge_index
