r"""The edges of a graph that sampled computation graphs walk along."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape


def edges_of_trees(
    edge_index: Tensor,
    tree: Tensor,
    shape: TreeShape,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""The edge from the node of each slot to the node of its parent slot.

    It works for trees of any sampler. If parallel edges connect two nodes, a
    child gets a random one of them. Children of one parent that are the same
    node get different ones, as far as there are enough.

    Args:
        edge_index (torch.Tensor): The edges of the graph, ``[2, E]``.
        tree (torch.Tensor): The node of each slot, ``[n, T]``, :obj:`-1` where
            null.
        shape (TreeShape): The geometry of the trees.
        generator (torch.Generator, optional): The source of randomness. It is
            used only if there are parallel edges. (default: :obj:`None`)

    Returns:
        The position of each edge in :obj:`edge_index`, ``[n, T]``, :obj:`-1` at
        roots and null slots.
    """
    found = torch.full_like(tree, -1)
    if edge_index.size(1) == 0:
        return found
    num_nodes = 1 + int(max(edge_index.max(), tree.max()))
    code, order = (edge_index[0] * num_nodes + edge_index[1]).sort(stable=True)
    parent = tree[:, shape.parent[1:].to(tree.device)]
    child = tree[:, 1:]
    real = child >= 0
    wanted = (child * num_nodes + parent)[real]
    first = torch.searchsorted(code, wanted)
    number = torch.searchsorted(code, wanted, right=True) - first
    if bool((number == 0).any()):
        raise ValueError('A child of a tree is not an in-neighbour of its parent')
    if bool((number > 1).any()):
        start = torch.rand(parent.shape, generator=generator, device=tree.device)
        first = first + _parallel(start, child, shape)[real] % number
    found[:, 1:][real] = order[first]
    return found


def _parallel(start: Tensor, child: Tensor, shape: TreeShape) -> Tensor:
    r"""A number of each child slot, ``[n, T - 1]``: random for the first of equal children of
    one parent, and one more for each further one.
    """
    out = torch.empty_like(child)
    begin = 0
    for fan_out, size in zip(shape.num_neighbors, shape.layer_sizes[1:], strict=True):
        part = slice(begin, begin + size)
        node = child[:, part].unflatten(1, (-1, fan_out))
        equal = node[:, :, :, None] == node[:, :, None, :]  # [n, P, f, f]
        earlier = equal.tril(-1).sum(dim=3)
        same_as = equal.long().argmax(dim=3)  # the first equal child
        chance = (start[:, part].unflatten(1, (-1, fan_out)) * (1 << 20)).long()
        out[:, part] = (chance.gather(2, same_as) + earlier).flatten(1)
        begin += size
    return out
