r"""Edges with bounded degrees, and their trees, of which few change with an edge or a node."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.utils.checks import check_positive
from torch_geometric_cgt.utils.seeds import keyed_hash


def stable_children(
    edge_index: Tensor, num_nodes: int, max_parents: int, max_children: int, key: int
) -> InNeighbors:
    r"""Keeps few edges, such that each node is a child of at most
    :obj:`max_parents` nodes and has at most :obj:`max_children` children.

    Every ordered pair of nodes (child, parent) has a priority, its
    :meth:`~torch_geometric_cgt.utils.seeds.keyed_hash`, which does not depend on
    the graph.

    1. Each node keeps its :obj:`max_parents` edges out of it with the lowest
       priorities.
    2. Each node keeps, of the remaining edges into it, the :obj:`max_children`
       edges with the lowest priorities. They are its list of children, lowest
       priority first.

    Both steps look at the edges of one node only, and the second does not feed
    back into the first. Few lists therefore change if an edge or a node is
    removed and everything is computed again:
    :class:`~torch_geometric_cgt.privacy.StableSample` states how many trees
    change at most, for every key. The key need not be secret.

    Parallel edges count as one edge. A self-loop counts as one edge and makes a
    node its own child. The numbers of nodes are part of the pairs: a graph without
    a node has the same numbers for all other nodes.

    Args:
        edge_index (torch.Tensor): Edges from child to parent, ``[2, E]``.
        num_nodes (int): The number of nodes.
        max_parents (int): The largest number of kept edges out of a node.
        max_children (int): The largest number of kept edges into a node: the
            largest fan-out of the trees.
        key (int): The key of the priorities.
    """
    pairs = distinct_pairs(edge_index, num_nodes)
    return children_by_priority(pairs, keyed_hash(pairs, key), num_nodes, max_parents, max_children)


def distinct_pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    r"""Removes parallel edges and sorts the edges by child and parent.

    Args:
        edge_index (torch.Tensor): Edges from child to parent, ``[2, E]``.
        num_nodes (int): The number of nodes.
    """
    code = torch.unique(edge_index[0] * num_nodes + edge_index[1])
    return torch.stack([code // num_nodes, code % num_nodes])


def children_by_priority(
    pairs: Tensor,
    priority: NDArray[np.generic],
    num_nodes: int,
    max_parents: int,
    max_children: int,
) -> InNeighbors:
    r"""The rule of :meth:`stable_children` for any priorities.

    The time is that of sorting the pairs. Pairs of the same priority are ordered
    by child and parent, so that their order does not depend on other pairs.

    Args:
        pairs (torch.Tensor): Distinct pairs (child, parent), sorted, ``[2, E]``.
        priority (np.ndarray): The priority of each pair, ``[E]``.
        num_nodes (int): The number of nodes.
        max_parents (int): The largest number of kept edges out of a node.
        max_children (int): The largest number of kept edges into a node.
    """
    check_positive('max_parents', max_parents)
    check_positive('max_children', max_children)
    kept = pairs.cpu().numpy()
    for end, most in ((0, max_parents), (1, max_children)):
        order = np.lexsort((priority, kept[end]))  # stable: ties keep the order of the pairs
        node = kept[end, order]
        rank = np.arange(node.size) - np.searchsorted(node, node)
        order = order[rank < most]
        kept, priority = kept[:, order], priority[order]
    return InNeighbors.from_edge_index(torch.from_numpy(kept), num_nodes)


def unroll_trees(graph: InNeighbors, root: Tensor, shape: TreeShape) -> Tensor:
    r"""The computation graph of each root, with the first children of each list.

    A node of layer :math:`l` has the first :math:`f_l` in-neighbours of its list
    as children, wherever it occurs. Nothing is drawn. Missing children, and all
    slots below them, are null.

    Args:
        graph (InNeighbors): The lists of children, *e.g.*, those of
            :meth:`stable_children`.
        root (torch.Tensor): The roots, ``[n]``.
        shape (TreeShape): The geometry of the trees.

    Returns:
        The node id of each breadth-first slot, ``[n, T]``, :obj:`-1` where null.
    """
    layers = [root.view(-1, 1)]
    for fan_out, size in zip(shape.num_neighbors, shape.layer_sizes[1:], strict=True):
        parent = layers[-1].reshape(-1)
        node = parent.clamp(min=0)
        degree = graph.degree(node).masked_fill_(parent < 0, 0)
        step = torch.arange(fan_out, device=parent.device)
        position = torch.where(step < degree[:, None], graph.ptr[node, None] + step, -1)
        layers.append(graph.source_of(position).view(root.numel(), size))
    return torch.cat(layers, dim=1)
