r"""Tree samplers that visit one node after the other: what vectorised sampling is compared with."""

import random
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from torch_geometric_cgt.sampler import InNeighbors


def loop_over_tensors(graph: InNeighbors, root: Tensor, fan_outs: Sequence[int]) -> Tensor:
    r"""One permutation of tensors per visited node, as one writes it down first.

    Args:
        graph (InNeighbors): The graph.
        root (torch.Tensor): The roots, ``[n]``.
        fan_outs (list[int]): The fan-out of each layer.
    """
    trees = []
    for first in root:
        layers = [first.view(1)]
        for fan_out in fan_outs:
            children = torch.full((layers[-1].numel(), fan_out), -1)
            for i, node in enumerate(layers[-1]):
                if node >= 0:
                    found = graph.source[graph.ptr[node] : graph.ptr[node + 1]]
                    found = found[torch.randperm(found.numel())[:fan_out]]
                    children[i, : found.numel()] = found
            layers.append(children.view(-1))
        trees.append(torch.cat(layers))
    return torch.stack(trees)


def loop_over_lists(
    neighbors: Sequence[Sequence[int]], root: Sequence[int], fan_outs: Sequence[int]
) -> list[list[int]]:
    r"""The same with lists of neighbours that were made beforehand: about as fast as a loop in
    Python gets.

    Args:
        neighbors (list[list[int]]): The in-neighbours of each node.
        root (list[int]): The roots.
        fan_outs (list[int]): The fan-out of each layer.
    """
    trees = []
    for first in root:
        tree, layer = [first], [first]
        for fan_out in fan_outs:
            children: list[int] = []
            for node in layer:
                found = neighbors[node] if node >= 0 else ()
                if len(found) > fan_out:
                    children += random.sample(found, fan_out)
                else:
                    children += [*found, *[-1] * (fan_out - len(found))]
            tree += children
            layer = children
        trees.append(tree)
    return trees


def neighbor_lists(graph: InNeighbors) -> list[list[int]]:
    r"""The in-neighbours of each node as lists."""
    source, ptr = graph.source.tolist(), graph.ptr.tolist()
    return [source[a:b] for a, b in pairwise(ptr)]
