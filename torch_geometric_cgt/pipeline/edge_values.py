r"""Edge values of a build: their distribution is learned from the source, or answered by a private
query, and values are drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import EdgeForm, EdgeValues, TokenTrees, tokens_of
from torch_geometric_cgt.models import PrivateMixing, TreeModel
from torch_geometric_cgt.models.edge_tables import (
    EDGES_PER_NODE,
    EdgeTables,
    count_edge_values,
    draw_by_label,
    label_given_token,
)
from torch_geometric_cgt.pipeline.promise import DifferentialPrivacy
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.workspace import Outcome
from torch_geometric_cgt.sampler import TreeDraws, edges_of_trees
from torch_geometric_cgt.training.sample import BLOCK
from torch_geometric_cgt.transforms.edge_codebook import EdgeGrid, fit_edge_codebook
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


@dataclass(frozen=True)
class KAnonymousEdges:
    r"""The edge values of a k-anonymous build.

    Args:
        values (EdgeValues): The value of each edge token.
        cluster (torch.Tensor): The edge token of each edge of the source, ``[E]``.
        facts (dict[str, Any]): The facts of the card.
    """

    values: EdgeValues
    cluster: Tensor
    facts: dict[str, Any]

    @staticmethod
    def group(source: Source, k: int, seed: int) -> Outcome:
        r"""Groups edges with similar values, each with enough nodes behind it. The result is
        what :meth:`of` takes.

        Args:
            source (Source): The source graph. Its edges have values.
            k (int): The smallest number of nodes behind a group.
            seed (int): The seed of the clustering.
        """
        values, data = source.edge_values(), source.data
        assert values is not None
        found = fit_edge_codebook(values, data.edge_index, data.num_nodes, k, seed)
        facts = {
            **values.form.to_dict(),
            'num_values': len(found.values),
            'k': k,
            'k_reached': int(found.support.min()),
        }
        return {'codebook': found.values.table, 'token': found.token}, facts

    @classmethod
    def of(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> KAnonymousEdges:
        r"""The edge values from the result of :meth:`group`."""
        form = EdgeForm(**{name: facts[name] for name in ('weight', 'attr', 'size')})
        return cls(EdgeValues(tensors['codebook'], form), tensors['token'], facts)

    def draw(
        self,
        trees: TokenTrees,
        draws: TreeDraws,
        y: Tensor,
        source: Source,
        learn_seed: int,
        draw_seed: int,
    ) -> Tensor:
        r"""Draws the edge tokens of a release, given parents, children and labels, ``[n, T]``.

        Args:
            trees (TokenTrees): The trees of the release.
            draws (TreeDraws): The computation graphs of the source.
            y (torch.Tensor): The label of each of their roots.
            source (Source): The source graph.
            learn_seed (int): The seed of the computation graphs that are counted.
            draw_seed (int): The seed of the edge tokens.
        """
        sizes = (len(self.values), y, source.num_classes, self.facts['k'])
        tables = learn_edges(draws, source.data.edge_index, self.cluster, *sizes, learn_seed)
        return draw_edge_tokens(tables.draw, trees, draw_seed)

    def attach(self, trees: TokenTrees, edge_tokens: Tensor) -> TokenTrees:
        r"""Trees with edge tokens and their values."""
        return replace(trees, edge_tokens=edge_tokens, edge_values=self.values)


@dataclass(frozen=True)
class PrivateEdges:
    r"""The edge values of a private build.

    Args:
        grid (EdgeGrid): The public grid of their values.
        form (EdgeForm): Their types and shapes, which are public.
        capped (bool): Whether a node has a bounded weight in their counts.
    """

    grid: EdgeGrid
    form: EdgeForm
    capped: bool

    @classmethod
    def of(cls, source: Source, promise: DifferentialPrivacy) -> PrivateEdges | None:
        r"""The edge values of a build; :obj:`None` if it has none.

        Args:
            source (Source): The checked source graph.
            promise (DifferentialPrivacy): The promise.
        """
        grid = promise.edge_grid
        values = None if grid is None else source.edge_values()
        if values is None or grid is None:
            return None
        return cls(grid, values.form, promise.unit != 'edge')

    def counts(self, source: Source, model: TreeModel) -> Tensor:
        r"""The exact counts per label of the parent and cell, ``[C * m]``, which are
        **not** private. They are made on all edges, or on a part of the edges if the
        private model knows how many there are.

        Args:
            source (Source): The source graph.
            model (TreeModel): The fitted private model.
        """
        values, data, rate = source.edge_values(), source.data, 1.0
        assert values is not None
        if isinstance(model, PrivateMixing):
            rate = min(1.0, EDGES_PER_NODE / float(model.degree))
        token, sizes = self.grid.tokens(values), (source.num_classes, self.grid.num_cells)
        return count_edge_values(data.edge_index, token, data.y, *sizes, rate, self.capped)

    def draw(self, trees: TokenTrees, share: Tensor, seed: int) -> Tensor:
        r"""Draws edge tokens from private results alone, ``[n, T]``.

        Args:
            trees (TokenTrees): The trees of the release.
            share (torch.Tensor): The distribution of edge tokens of each label of a
                parent, ``[C, m]``.
            seed (int): The seed of the draws.
        """
        sizes = (trees.num_tokens, trees.num_classes)
        evidence = label_given_token(trees.tokens[:, 0], trees.y, *sizes)
        return draw_edge_tokens(partial(draw_by_label, share, evidence, trees.shape), trees, seed)

    def attach(self, trees: TokenTrees, edge_tokens: Tensor) -> TokenTrees:
        r"""Trees with edge tokens and the values of the grid."""
        return replace(trees, edge_tokens=edge_tokens, edge_values=self.grid.values(self.form))

    def facts(self) -> dict[str, Any]:
        r"""The facts of the card."""
        return {**self.form.to_dict(), 'num_values': self.grid.num_cells}
