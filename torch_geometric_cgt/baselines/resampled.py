r"""Computation graphs of the source, resampled: an upper bound without protection of trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.table_model import TableModel
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.utils.seeds import seeded

BLOCK = 1 << 16  # roots that are drawn at a time


class Resampled(TableModel):
    r"""Draws trees with replacement from those of the source with the same label.
    Nothing is generated: whole neighbourhoods are released. It is the upper bound
    of what a generator of token trees can reach.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        num_draws (int, optional): The number of computation graphs that are kept
            of each root. (default: :obj:`1`)
    """

    name = 'Resampled'
    copies_trees = True

    tree: Tensor  # [n, T] sorted by label
    tree_ptr: Tensor  # [C + 1]

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        num_draws: int = 1,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors, ('tree', 'tree_ptr'))
        if num_draws < 1:
            raise ValueError(f"'num_draws' must be at least 1 (got {num_draws})")
        self.num_draws = num_draws

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), 'num_draws': self.num_draws}

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Keeps :obj:`num_draws` computation graphs of every root."""
        context = context or FitContext()
        rng, kept = seeded(context.seed, 'trees'), []
        for _ in range(self.num_draws):
            for index in torch.arange(len(source)).split(BLOCK):
                context.limits.check()
                kept.append(source.draw(index, rng).int())
        label, order = torch.sort(source.y.long().repeat(self.num_draws), stable=True)
        if label.numel() == 0:
            raise ValueError('The source has no computation graphs to learn from')
        self.set_tables(
            tree=torch.cat(kept)[order],
            tree_ptr=torch.searchsorted(label, torch.arange(self.num_classes + 1)),
        )
        return {'num_trees': label.numel()}

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``. Scenes are not used."""
        self.require_fitted()
        start, stop = self.tree_ptr[y], self.tree_ptr[y + 1]
        known = start < stop
        start, stop = torch.where(known, start, 0), torch.where(known, stop, self.tree.size(0))
        uniform = torch.rand(y.size(), dtype=torch.float64, device=y.device, generator=generator)
        place = start + (uniform * (stop - start)).long()
        return self.tree[place].long()
