r"""Edge values of a private build: counts for a query, and draws from its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from torch_geometric_cgt.data import EdgeForm, TokenTrees
from torch_geometric_cgt.models import PrivateMixing, TreeModel
from torch_geometric_cgt.models.edge_value_counts import (
    EDGES_PER_NODE,
    count_edge_values,
    draw_by_label,
    label_given_token,
)
from torch_geometric_cgt.pipeline.edge_values import draw_edge_tokens
from torch_geometric_cgt.pipeline.promise import DifferentialPrivacy
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.transforms.edge_grid import EdgeGrid


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
