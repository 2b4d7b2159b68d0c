r"""Computation graphs of many roots as rows of node ids."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children

BLOCK = 1 << 16  # parents at a time: what is computed for them stays in the processor's cache


class TreeSampler(Protocol):
    r"""Anything that maps roots to their computation graphs: called as
    :meth:`sample_trees` is, and with the same promises. Each row is a root and
    its slots in breadth-first order, :obj:`-1` where null; a child is an
    in-neighbour of its parent; below null there is only null.
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

    A node that is reached twice is copied; a parent with fewer neighbours
    than slots is padded with null, and null has only null below it.

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
        # Draws of a block follow those of the one before, so blocks do not change the trees.
        for rows, block in zip(child.split(BLOCK), parent.split(BLOCK), strict=True):
            rows.copy_(graph.source_of(sample_children(graph, block, fan_out, generator)))
        layers.append(child.view(root.numel(), size))
    return torch.cat(layers, dim=1)
