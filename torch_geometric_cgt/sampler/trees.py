r"""Computation graphs of many roots as rows of node ids."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children


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
    for layer, fan_out in enumerate(shape.num_neighbors, start=1):
        position = sample_children(graph, layers[-1].reshape(-1), fan_out, generator)
        layers.append(graph.source_of(position).view(-1, shape.layer_sizes[layer]))
    return torch.cat(layers, dim=1)
