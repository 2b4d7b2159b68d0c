r"""Edge values of a build: learning their distribution from the source, and drawing them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, tokens_of
from torch_geometric_cgt.models.edge_tables import EdgeTables
from torch_geometric_cgt.sampler import TreeDraws, edges_of_trees
from torch_geometric_cgt.training.sample import BLOCK
from torch_geometric_cgt.utils.seeds import seeded

LEARN_TREES, MAX_DRAWS = 20_000, 8  # source trees that are counted; small graphs get more draws


def learn_edges(
    draws: TreeDraws,
    edge_index: Tensor,
    edge_cluster: Tensor,
    num_values: int,
    y: Tensor,
    num_classes: int,
    k: int,
    seed: int,
) -> EdgeTables:
    r"""Counts the edge tokens of computation graphs of the source.

    Args:
        draws (TreeDraws): The computation graphs of the source.
        edge_index (torch.Tensor): The edges of the source, ``[2, E]``.
        edge_cluster (torch.Tensor): The edge token of each edge, ``[E]``.
        num_values (int): The number of edge tokens.
        y (torch.Tensor): The label of each root, ``[n]``.
        num_classes (int): The number of labels.
        k (int): The smallest number of parents and of children behind a
            distribution.
        seed (int): The seed of the computation graphs.
    """
    rng = torch.Generator().manual_seed(seed)
    index = torch.randperm(y.numel(), generator=rng)[:LEARN_TREES]
    index = index.repeat(max(1, min(MAX_DRAWS, LEARN_TREES // max(1, index.numel()))))
    nodes = draws.nodes(index, rng)
    edge = edges_of_trees(edge_index, nodes, draws.shape, rng)
    pair = draws.cluster[draws.root] * num_classes + y
    seen = torch.bincount(pair, minlength=draws.num_tokens * num_classes).view(-1, num_classes)
    tables = EdgeTables(num_values, draws.num_tokens, num_classes, seen.argmax(dim=1), draws.shape)
    tables.fit(
        tokens_of(nodes, draws.cluster, draws.num_tokens),
        y[index],
        nodes,
        tokens_of(edge, edge_cluster, num_values),
        k,
    )
    return tables


def draw_edge_tokens(
    draw: Callable[[Tensor, Tensor, torch.Generator], Tensor], trees: TokenTrees, seed: int
) -> Tensor:
    r"""Draws the edge tokens of trees, block by block, ``[n, T]``.

    Args:
        draw (callable): Draws edge tokens, given node tokens, labels and a source
            of randomness.
        trees (TokenTrees): The trees.
        seed (int): The seed of the draws.
    """
    blocks = [
        draw(part.tokens, part.y, seeded(seed, 'edges', block)).int()
        for block, part in enumerate(trees.blocks(BLOCK))
    ]
    return torch.cat(blocks)
