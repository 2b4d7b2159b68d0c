r"""A public grid of edge values between declared bounds, for private builds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import EDGE_KEYS, EdgeForm, EdgeValues
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.checks import check_positive

MAX_CELLS = 256
Bounds = dict[str, list[list[float]]]  # for each name, the lower and upper bound of each column


@dataclass(frozen=True)
class EdgeGrid:
    r"""Equal bins between declared bounds. A cell has one bin of each column. It does
    not depend on the data.

    Args:
        bounds (dict): The bounds of the columns of :obj:`edge_weight` and
            :obj:`edge_attr`, as :meth:`check_bounds` returns them.
        num_bins (int): The number of bins of a column.
    """

    bounds: Bounds
    num_bins: int

    def __post_init__(self) -> None:
        check_positive('edge_bins', self.num_bins)
        size = len(self.columns) * math.log(self.num_bins)  # a power may be a very large number
        if size > math.log(MAX_CELLS) + 1e-9:
            raise ValueError(
                f"'edge_bins' = {self.num_bins} for {len(self.columns)} columns gives more than "
                f"{MAX_CELLS} cells: use fewer bins, or fewer columns of 'edge_attr'"
            )

    @property
    def columns(self) -> list[list[float]]:
        r"""The bounds of all columns."""
        return [pair for name in EDGE_KEYS for pair in self.bounds.get(name, [])]

    @property
    def num_cells(self) -> int:
        r"""The number of cells."""
        return int(self.num_bins ** len(self.columns))

    def check(self, form: EdgeForm) -> None:
        r"""Raises :class:`~torch_geometric_cgt.errors.SourceError` unless the bounds
        are those of these edge values.

        Args:
            form (EdgeForm): The form of the edge values of a source.
        """
        found = {name: 1 for name in form.names}
        if form.attr is not None:
            found['edge_attr'] = max(1, form.size)
        declared = {name: len(pairs) for name, pairs in self.bounds.items()}
        if found != declared:
            raise SourceError(
                f"'edge_bounds' must hold the bounds of each column of the source's edge values, "
                f'{found} (got bounds for {declared})'
            )

    def values(self, form: EdgeForm) -> EdgeValues:
        r"""The middle of each cell, in the types of the form.

        Args:
            form (EdgeForm): The form of the edge values.
        """
        middle = (torch.arange(self.num_bins).double() + 0.5) / self.num_bins
        axes = [low + middle * (high - low) for low, high in self.columns]
        table = torch.cartesian_prod(*axes).view(self.num_cells, len(axes))
        table = torch.where(form.is_whole, table.round(), table)
        return EdgeValues(table, form).fitted()

    def tokens(self, values: EdgeValues) -> Tensor:
        r"""The cell of each edge, ``[E]``. Values outside of the bounds are in the
        nearest bin.

        Args:
            values (EdgeValues): The values of all edges.
        """
        token = torch.zeros(len(values), dtype=torch.long)
        for column, (low, high) in zip(values.table.t(), self.columns, strict=True):
            place = ((column - low) / (high - low) * self.num_bins).floor()
            token = token * self.num_bins + place.clamp(0, self.num_bins - 1).long()
        return token


def check_bounds(bounds: Any) -> Bounds:
    r"""Checks declared bounds and returns them in one form, for a JSON file.

    Args:
        bounds (dict): For :obj:`"edge_weight"` and :obj:`"edge_attr"`, as far as
            the source has them, the lower and the upper bound. For several
            columns, a list of such pairs.
    """
    example = "e.g. {'edge_weight': (0, 1)} or {'edge_attr': [(0, 1), (0, 10)]}"
    if not isinstance(bounds, Mapping) or not bounds or not set(bounds) <= set(EDGE_KEYS):
        raise ValueError(
            f"'edge_bounds' must hold the bounds of 'edge_weight', 'edge_attr' or both, {example} "
            f'(got {bounds!r:.80})'
        )
    out: Bounds = {}
    for name in EDGE_KEYS:
        if name in bounds:
            given = bounds[name]
            pairs = [given] if _is_pair(given) else given
            if not isinstance(pairs, Sequence) or not pairs or not all(map(_is_pair, pairs)):
                raise ValueError(
                    f"The bounds of '{name}' must be two finite numbers, the lower one first, or a "
                    f'list of such pairs, {example} (got {given!r:.80})'
                )
            out[name] = [[float(low), float(high)] for low, high in pairs]
    if len(out.get('edge_weight', [[]])) != 1:
        raise ValueError(
            f"'edge_weight' has one pair of bounds (got {bounds['edge_weight']!r:.80})"
        )
    return out


def _is_pair(given: Any) -> bool:
    if not isinstance(given, Sequence) or len(given) != 2:
        return False
    is_number = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in given)
    return is_number and all(map(math.isfinite, given)) and given[0] < given[1]
