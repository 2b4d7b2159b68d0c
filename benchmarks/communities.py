r"""Made-up graphs with communities and a heavy tail of degrees, up to 100 million edges."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.datasets.ogb import undirected

BLOCK = 1 << 22  # edges


@dataclass(frozen=True)
class Communities:
    r"""What a made-up graph is to be like."""

    num_nodes: int
    num_edges: int  # pairs of nodes
    num_classes: int
    homophily: float  # share of edges between nodes of one class
    tail: float  # the share of degrees above d falls as d ** -tail
    stray: float  # share of nodes that live in the community of another class

    def scaled(self, scale: float) -> 'Communities':
        r"""A smaller graph of the same mean degree."""
        size = {key: round(scale * getattr(self, key)) for key in ('num_nodes', 'num_edges')}
        return replace(self, **size)


def make_communities(aim: Communities, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Draws a graph.

    Every node has a number of loose ends: most of them are joined at random
    to loose ends in the community of the node, the others to any. Pairs that
    come up twice count once, which costs a graph of full size a few percent of
    its edges and small graphs more. Arrays of ends are 32-bit.

    Args:
        aim (Communities): What the graph is to be like.
        seed (int): The seed.

    Returns:
        The edges in both directions ``[2, E]``, sorted, the label of each
        node and the community of each node.
    """
    rng = np.random.default_rng(seed)
    n = aim.num_nodes
    share = 1 / np.arange(1, aim.num_classes + 1)  # a few large classes, many small ones
    share /= share.sum()
    size = np.maximum(1, (share * n).astype(np.int64))
    size[0] += n - size.sum()
    home = np.repeat(np.arange(aim.num_classes), size)  # [N], ascending while edges are drawn
    stray = rng.random(n) < aim.stray
    y = np.where(stray, rng.choice(aim.num_classes, n, p=share), home)

    degree = _degrees(aim, rng)
    at_home = rng.binomial(degree, _share_at_home(aim, share))
    at_home = np.minimum(at_home, size[home])  # a hub cannot have more neighbours there
    name = rng.permutation(n).astype(np.int32)  # ids must not tell the class
    near = np.repeat(np.arange(n, dtype=np.int32), at_home)
    stop = np.cumsum(np.bincount(home, at_home, aim.num_classes)).astype(np.int64)
    for ends in np.split(near, stop[:-1]):
        rng.shuffle(ends)
    far = np.repeat(np.arange(n, dtype=np.int32), degree - at_home)
    rng.shuffle(far)

    def blocks() -> Iterator[np.ndarray]:
        for ends in [*np.split(near, stop[:-1]), far]:
            pairs = ends[: len(ends) // 2 * 2].reshape(-1, 2)
            for begin in range(0, len(pairs), BLOCK):
                block = pairs[begin : begin + BLOCK]
                yield block[block[:, 0] != block[:, 1]]

    num_edges = sum(len(block) for block in blocks())
    edge_index = undirected((name[block] for block in blocks()), num_edges, n)
    order = np.argsort(name)
    return edge_index, torch.from_numpy(y[order]), torch.from_numpy(home[order])


def _degrees(aim: Communities, rng: np.random.Generator) -> np.ndarray:
    r"""The number of loose ends of each node: evenly spaced quantiles of a
    Pareto distribution, so that every seed has the same tail.
    """
    quantile = (np.arange(aim.num_nodes) + 0.5) / aim.num_nodes
    weight = (1 - quantile) ** (-1 / aim.tail) - 1
    weight *= 2 * aim.num_edges / weight.sum()
    rng.shuffle(weight)
    whole = np.floor(weight)
    return np.maximum(1, whole + (rng.random(len(weight)) < weight - whole)).astype(np.int64)


def _share_at_home(aim: Communities, share: np.ndarray) -> float:
    r"""The share of ends joined within a community that gives the homophily:
    two nodes of one community have one label unless a stray is among them.
    """
    chance = float((share**2).sum())
    faithful = (1 - aim.stray) ** 2
    near = faithful + (1 - faithful) * chance
    return min(1.0, (aim.homophily - chance) / (near - chance))
