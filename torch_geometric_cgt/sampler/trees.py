r"""Computation graphs of many roots as rows of node ids."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children


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
    for fan_out in shape.num_neighbors:
        position = sample_children(graph, layers[-1].reshape(-1), fan_out, generator)
        layers.append(graph.source_of(position).view(root.numel(), -1))
    return torch.cat(layers, dim=1)
