r"""Token trees whose tokens are drawn independently, given the label and the layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_geometric_cgt.baselines.ngram import NGram


class Independent(NGram):
    r"""Draws the tokens and the numbers of children of all nodes independently,
    given the label of the root and the layer. It is an :class:`NGram` of order 0
    without copies.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'Independent'

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors, order=0, repeats=False)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        own = super().config()
        return {name: own[name] for name in ('num_tokens', 'num_classes', 'num_neighbors')}
