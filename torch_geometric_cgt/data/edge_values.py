r"""Edge weights and edge attributes: one table for both, and the form that they are returned in."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.errors import SourceError

WEIGHT, ATTR = 'edge_weight', 'edge_attr'
EDGE_KEYS = (WEIGHT, ATTR)
FLOATING = ('float32', 'float64', 'float16', 'bfloat16')
WHOLE = ('int64', 'int32', 'int16', 'int8', 'uint8', 'bool')


@dataclass(frozen=True)
class EdgeForm:
    r"""Which edge values a graph has, and their types and shapes.

    Args:
        weight (str, optional): The type of :obj:`edge_weight`, *e.g.*,
            :obj:`"float32"`; :obj:`None` if there is none.
        attr (str, optional): The type of :obj:`edge_attr`; :obj:`None` if there
            is none.
        size (int, optional): The number of columns of :obj:`edge_attr`, zero if
            it is a vector. (default: :obj:`0`)
    """

    weight: str | None
    attr: str | None
    size: int = 0

    def __post_init__(self) -> None:
        if self.weight is None and self.attr is None:
            raise ValueError('There is neither an edge weight nor an edge attribute')
        if self.attr is None and self.size:
            raise ValueError(f'There is no edge attribute with {self.size} columns')
        for name, dtype in ((WEIGHT, self.weight), (ATTR, self.attr)):
            if dtype is not None and dtype not in FLOATING + WHOLE:
                raise ValueError(
                    f"'{name}' must hold real numbers, integers or booleans (got {dtype!r:.40})"
                )

    @property
    def num_columns(self) -> int:
        r"""The number of values of an edge."""
        return len(self.dtypes)

    @property
    def dtypes(self) -> list[str]:
        r"""The type of each column."""
        weight = [] if self.weight is None else [self.weight]
        return weight + ([] if self.attr is None else [self.attr] * max(1, self.size))

    @property
    def is_whole(self) -> Tensor:
        r"""Whether each column holds whole numbers by its type, ``[num_columns]``."""
        return torch.tensor([dtype in WHOLE for dtype in self.dtypes])

    @property
    def names(self) -> tuple[str, ...]:
        r"""The names of the edge values that there are."""
        given = ((WEIGHT, self.weight), (ATTR, self.attr))
        return tuple(name for name, dtype in given if dtype is not None)

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class EdgeValues:
    r"""A table of edge values. Each row holds the weight, if there is one, and
    then the attributes. For a source, a row is an edge. For a release, a row is a
    codeword.

    Args:
        table (torch.Tensor): The values, ``[R, num_columns]``, of type
            :obj:`float64`.
        form (EdgeForm): Their form.
    """

    table: Tensor
    form: EdgeForm

    def __len__(self) -> int:
        return self.table.size(0)

    @classmethod
    def of(cls, data: Data) -> EdgeValues | None:
        r"""The edge values of a graph; :obj:`None` if it has none. Raises
        :class:`~torch_geometric_cgt.errors.SourceError` if they are invalid.

        Args:
            data (Data): The graph.
        """
        given = {name: value for name in EDGE_KEYS if (value := data.get(name)) is not None}
        if not given:
            return None
        columns = [_check(name, value, data) for name, value in given.items()]
        attr = given.get(ATTR)
        form = EdgeForm(
            _name_of(given.get(WEIGHT)),
            _name_of(attr),
            attr.size(1) if attr is not None and attr.dim() == 2 else 0,
        )
        return cls(torch.cat(columns, dim=1), form)

    def take(self, row: Tensor) -> dict[str, Tensor]:
        r"""The weight and the attributes of some rows, in the form of the source.

        Args:
            row (torch.Tensor): The rows, ``[E]``.
        """
        values, form, out = self.table[row], self.form, {}
        first = 0
        if form.weight is not None:
            out[WEIGHT], first = values[:, 0].to(getattr(torch, form.weight)), 1
        if form.attr is not None:
            attr = values[:, first:].to(getattr(torch, form.attr))
            out[ATTR] = attr if form.size else attr[:, 0]
        return out

    def fitted(self) -> EdgeValues:
        r"""The same values, as far as the types of the form can hold them."""
        columns = [
            self.table[:, i].to(getattr(torch, dtype)).double()
            for i, dtype in enumerate(self.form.dtypes)
        ]
        return EdgeValues(torch.stack(columns, dim=1), self.form)

    def validate(self) -> None:
        r"""Raises :class:`ValueError` if the table is not one of this form."""
        if self.table.dim() != 2 or self.table.size(1) != self.form.num_columns:
            raise ValueError(
                f'Expected edge values of shape [R, {self.form.num_columns}] '
                f'(got {list(self.table.shape)})'
            )
        if not bool(self.table.isfinite().all()):
            raise ValueError('An edge value is not finite')
        if not torch.equal(self.fitted().table, self.table):
            raise ValueError(f'An edge value does not fit the types {self.form.dtypes}')


def values_at(data: Data, edge: Tensor) -> dict[str, Tensor]:
    r"""The edge weight and the edge attributes of some edges of a graph, as far as it
    has them.

    Args:
        data (Data): The graph.
        edge (torch.Tensor): The positions of the edges, or a mask.
    """
    return {name: data[name][edge] for name in EDGE_KEYS if data.get(name) is not None}


def _name_of(value: Tensor | None) -> str | None:
    return None if value is None else str(value.dtype).removeprefix('torch.')


def _check(name: str, value: Any, data: Data) -> Tensor:
    r"""Checks one tensor of edge values and returns it as columns, ``[E, d]``."""
    num_edges = data.num_edges
    if not isinstance(value, Tensor):
        raise SourceError(
            f"'{name}' must be a tensor with one row per edge (got '{type(value).__name__}')"
        )
    if value.layout != torch.strided:
        raise SourceError(
            f"'{name}' must be dense (got {value.layout}): data.{name} = data.{name}.to_dense()"
        )
    shapes = f'[{num_edges}]' if name == WEIGHT else f'[{num_edges}] or [{num_edges}, D]'
    is_column = value.dim() == 2 and value.size(1) > 0 and name == ATTR
    if value.dim() != 1 and not is_column:
        advice = f': use data.{name} = data.{name}.view(-1)' if name == WEIGHT else ''
        raise SourceError(
            f"'{name}' must have the shape {shapes} (got {list(value.shape)}){advice}"
        )
    if value.size(0) != num_edges:
        raise SourceError(
            f"'{name}' must have one row for each of the {num_edges} edges (got {value.size(0)})"
        )
    if _name_of(value) not in FLOATING + WHOLE:
        raise SourceError(
            f"'{name}' must hold real numbers, integers or booleans (got {value.dtype})"
        )
    columns = value.detach().cpu().double()
    columns = columns if columns.dim() == 2 else columns[:, None]
    bad = ~torch.isfinite(columns)
    if bad.any():
        raise SourceError(
            f"'{name}' must be finite (got {int(bad.sum())} NaN or infinite values, the first at "
            f'edge {int(bad.nonzero()[0, 0])})'
        )
    return columns
