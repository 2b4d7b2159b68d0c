r"""Uniform samples of in-neighbours, and computation graphs of them."""

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
