r"""Uniform samples of in-neighbours, computation graphs of them, and the edges that these walk
along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TreeShape, tokens_of

BLOCK_PARENTS = 1 << 16  # Parents at a time, so that intermediate results stay in the cache.


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


@dataclass(frozen=True)
class TreeDraws:
    r"""The computation graphs of some roots, sampled again on every call. Whoever
    learns from them needs neither the graph nor a sampler.

    Args:
        graph (InNeighbors): The graph.
        root (torch.Tensor): The roots, ``[n]``.
        shape (TreeShape): The geometry of the trees.
        cluster (torch.Tensor): The cluster of each node, ``[N]``.
        num_tokens (int): The number of clusters, which is also the null token.
    """

    graph: InNeighbors
    root: Tensor
    shape: TreeShape
    cluster: Tensor
    num_tokens: int

    def nodes(self, index: Tensor, generator: torch.Generator) -> Tensor:
        r"""Samples trees of nodes, ``[n, T]``, :obj:`-1` where null.

        Args:
            index (torch.Tensor): The places of the roots among all roots, ``[n]``.
            generator (torch.Generator): The source of randomness.
        """
        return sample_trees(self.graph, self.root[index], self.shape, generator)

    def tokens(self, index: Tensor, generator: torch.Generator) -> Tensor:
        r"""Samples trees of tokens, ``[n, T]``. The arguments are those of :meth:`nodes`."""
        return tokens_of(self.nodes(index, generator), self.cluster, self.num_tokens)


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
