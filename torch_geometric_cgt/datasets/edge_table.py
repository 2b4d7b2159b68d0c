r"""The table of edges: endpoints by the ids of nodes, weights and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from torch_geometric_cgt.datasets.column_encoding import (
    Encoded,
    EncodingOptions,
    as_text,
    encode_columns,
)
from torch_geometric_cgt.datasets.reading import Decision, shown
from torch_geometric_cgt.datasets.table_files import columns_of, read_table
from torch_geometric_cgt.errors import SourceError

if TYPE_CHECKING:
    import pandas as pd

ENDPOINTS = (('source', 'target'), ('src', 'dst'), ('from', 'to'))
WEIGHTS = ('weight', 'edge_weight')


@dataclass(frozen=True)
class EdgeTable:
    r"""The edges of a graph.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        edge_weight (torch.Tensor, optional): The weight of each edge, ``[E]``.
        edge_attr (torch.Tensor, optional): The attributes of each edge,
            ``[E, D]``.
        decisions (tuple[Decision, ...]): What became of each column.
        notes (tuple[str, ...]): What the owner should look at.
        counts (str): The numbers of rows, self-loops and duplicates.
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    edge_attr: Tensor | None
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]
    counts: str


def read_edges(
    path: Path,
    ids: Sequence[str],
    directed: bool,
    drop: Sequence[str],
    options: EncodingOptions,
) -> EdgeTable:
    r"""Reads the table of edges. Self-loops are removed. Rows with the same
    endpoints are merged, and their weights and attributes averaged.

    Args:
        path (Path): The file.
        ids (list[str]): The id of each node.
        directed (bool): Whether edges have one direction, from source to
            target. Otherwise, every edge gets both directions.
        drop (list[str]): Columns to leave out.
        options (EncodingOptions): How to encode attributes.
    """
    names = columns_of(path)
    kept = [name for name in names if name not in drop]
    ends = _endpoints(path, kept)
    table = read_table(path, ends)
    edge_index = _edge_index(table, ends, ids, path)
    columns = [name for name in kept if name not in ends]
    weight = next((name for name in WEIGHTS if name in columns), None)
    encoded = encode_columns(table, columns, str(path), _only(options, columns))
    value = torch.from_numpy(encoded.values)
    num_rows = edge_index.size(1)

    loop = edge_index[0] == edge_index[1]
    edge_index, value = edge_index[:, ~loop], value[~loop]
    unordered = edge_index if directed else edge_index.sort(dim=0).values
    num_distinct = unordered.unique(dim=1).size(1)
    merge = coalesce if directed else to_undirected
    edge_index, value = merge(edge_index, value, num_nodes=len(ids), reduce='mean')
    where = [encoded.names.index(weight)] if weight in encoded.names else []
    rest = [i for i in range(value.size(1)) if i not in where]
    direction = 'source to target only' if directed else 'both directions'
    repeated = int((~loop).sum()) - num_distinct
    counts = (
        f'{num_rows:,} rows, {direction}; {int(loop.sum()):,} self-loops removed, '
        f'{repeated:,} duplicates merged'
    )
    return EdgeTable(
        edge_index,
        value[:, where[0]].contiguous() if where else None,
        value[:, rest].contiguous() if rest else None,
        _decisions(ends, weight, encoded),
        encoded.notes,
        counts,
    )


def _endpoints(path: Path, names: Sequence[str]) -> tuple[str, str]:
    for first, second in ENDPOINTS:
        if first in names and second in names:
            return first, second
    if len(names) < 2:
        raise SourceError(
            f"'{path}' needs two columns with the ids of the nodes that an edge connects, e.g. "
            f"'source' and 'target' (got {list(names)})"
        )
    return names[0], names[1]


def _edge_index(
    table: pd.DataFrame, ends: tuple[str, str], ids: Sequence[str], path: Path
) -> Tensor:
    r"""The numbers of the endpoints, ``[2, E]``."""
    place = {id: i for i, id in enumerate(ids)}
    index = np.empty((2, len(table)), dtype=np.int64)
    unknown: dict[str, None] = {}
    count = 0
    for row, name in enumerate(ends):
        text = as_text(table[name])
        if empty := sum(value is None for value in text):
            raise SourceError(f"{empty:,} rows of '{path}' have no id in column '{name}'")
        for i, value in enumerate(text):
            index[row, i] = place.get(str(value), -1)
            if index[row, i] < 0:
                unknown.setdefault(str(value))
                count += 1
    if unknown:
        raise SourceError(
            f"{len(unknown):,} ids in the columns {list(ends)} of '{path}' are not ids of nodes, "
            f'{count:,} times, e.g. {shown([repr(value) for value in unknown], 3)} (nodes have ids '
            f'like {shown([repr(id) for id in ids], 3)})'
        )
    return torch.from_numpy(index)


def _only(options: EncodingOptions, columns: Sequence[str]) -> EncodingOptions:
    r"""The options for the columns of edges: names of columns of nodes do not count."""
    categorical = tuple(name for name in options.categorical if name in columns)
    return EncodingOptions(categorical, options.missing, False, options.max_values)


def _decisions(ends: tuple[str, str], weight: str | None, encoded: Encoded) -> tuple[Decision, ...]:
    found = [Decision('edges', ends, 'ids of nodes')]
    for each in encoded.decisions:
        if weight in each.columns:
            found.append(Decision('edge weight', (str(weight),), "as it is, in 'edge_weight'"))
        rest = tuple(name for name in each.columns if name != weight)
        if rest:
            found.append(Decision(f'edge {each.role}', rest, f"{each.detail}, in 'edge_attr'"))
    return tuple(found)
