r"""The two tables of a graph: nodes with ids, labels, splits and features, and edges with
endpoints, weights and attributes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.datasets.column_encoding import (
    Encoded,
    EncodingOptions,
    as_text,
    encode_columns,
    natural,
)
from torch_geometric_cgt.datasets.reading import Decision, shown
from torch_geometric_cgt.datasets.table_files import MISSING, columns_of, is_boolean, read_table
from torch_geometric_cgt.errors import SourceError

if TYPE_CHECKING:
    import pandas as pd


IDS, LABELS, SPLIT = ('id', 'node', 'node_id'), ('y', 'label'), 'split'
SPLITS = {  # what a cell of the split column may say
    **dict.fromkeys(('train', 'training'), 'train_mask'),
    **dict.fromkeys(('val', 'valid', 'validation', 'dev'), 'val_mask'),
    'test': 'test_mask',
}
ENDPOINTS = (('source', 'target'), ('src', 'dst'), ('from', 'to'))
WEIGHTS = ('weight', 'edge_weight')


@dataclass(frozen=True)
class NodeTable:
    r"""The nodes of a graph.

    Args:
        ids (list[str]): The id of each node.
        x (torch.Tensor): The features, ``[N, F]``.
        y (torch.Tensor): The class of each node, -1 without a label, ``[N]``.
        masks (dict[str, torch.Tensor]): The masks of the splits, each ``[N]``.
        classes (tuple[str, ...]): The name of each class.
        features (tuple[str, ...]): The name of each feature.
        decisions (tuple[Decision, ...]): What became of each column.
        notes (tuple[str, ...]): What the owner should look at.
    """

    ids: list[str]
    x: Tensor
    y: Tensor
    masks: dict[str, Tensor]
    classes: tuple[str, ...]
    features: tuple[str, ...]
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]


def read_nodes(
    path: Path,
    label: str | None,
    id: str | None,
    drop: Sequence[str],
    options: EncodingOptions,
) -> NodeTable:
    r"""Reads the table of nodes.

    Args:
        path (Path): The file.
        label (str, optional): The column of labels.
        id (str, optional): The column of ids.
        drop (list[str]): Columns to leave out.
        options (EncodingOptions): How to encode the other columns.
    """
    names = columns_of(path)
    if unknown := [name for name in drop if name not in names]:
        raise SourceError(f"'{path}' has no column {unknown} to leave out; it has {_list(names)}")
    kept = [name for name in names if name not in drop]
    id = _find(path, names, id, IDS, 'ids', '--id')
    label = _find(path, kept, label, LABELS, 'labels', '--label')
    _refuse_unnamed(path, [name for name in kept if name not in (id, label)])
    if id == label:
        raise SourceError(f"'{id}' of '{path}' cannot be both the id and the label")
    table = read_table(path, {id, label, SPLIT})
    if not len(table):
        raise SourceError(f"'{path}' has no rows")
    ids = _ids(table[id], path, id)
    y, classes, label_decision = _labels(table[label], path, label)
    masks, split_columns, split_decisions = _splits(table, kept, path)
    roles = {id, label, *split_columns}
    columns = [name for name in kept if name not in roles]
    encoded = encode_columns(table, columns, str(path), options)
    if not encoded.names:
        raise SourceError(
            f"'{path}' has no column of features beside {sorted(roles)}: a node needs at least one"
        )
    dropped = [Decision('dropped', tuple(drop), 'left out as asked for')] if drop else []
    decisions = (
        Decision('id', (id,), 'not a feature'),
        label_decision,
        *split_decisions,
        *encoded.decisions,
        *dropped,
    )
    x = torch.from_numpy(encoded.values)
    return NodeTable(ids, x, y, masks, classes, encoded.names, decisions, encoded.notes)


def _find(
    path: Path,
    names: Sequence[str],
    given: str | None,
    usual: Sequence[str],
    what: str,
    argument: str,
) -> str:
    r"""The column of ids or labels: the given one, or the first with a usual name."""
    if given is not None and given not in names:
        raise SourceError(f"'{path}' has no column '{given}' of {what}; it has {_list(names)}")
    found = [given] if given is not None else [name for name in usual if name in names]
    if not found:
        raise SourceError(
            f"'{path}' has no column of {what} named {' or '.join(map(repr, usual))}: name it "
            f"with '{argument}'. Its columns are {_list(names)}"
        )
    if what == 'labels' and len(found) > 1:
        raise SourceError(f"Which column of '{path}' holds the {what}, {found}? Say '{argument}'")
    return str(found[0])


def _refuse_unnamed(path: Path, names: Sequence[str]) -> None:
    r"""Raises an error for a column without a name, which would be a feature: often it holds the
    numbers of the rows.
    """
    if found := [name for name in names if re.fullmatch(r'Unnamed: \d+', name)]:
        raise SourceError(
            f"Column {int(found[0][9:]) + 1} of '{path}' has no name, as the numbers of rows that "
            f"pandas writes: name it, write the file with 'to_csv(..., index=False)', or leave the "
            f'column out (\'--drop "{found[0]}"\')'
        )


def _ids(column: pd.Series, path: Path, name: str) -> list[str]:
    found = as_text(column)
    if empty := sum(value is None for value in found):
        raise SourceError(f"{empty:,} rows of '{path}' have no id in column '{name}'")
    ids = [str(value) for value in found]
    if twice := [value for value, count in Counter(ids).items() if count > 1]:
        raise SourceError(
            f"{len(twice):,} ids of '{path}' are in more than one row, e.g. {shown(twice, 3)}: "
            f'every node needs one row'
        )
    return ids


def _labels(column: pd.Series, path: Path, name: str) -> tuple[Tensor, tuple[str, ...], Decision]:
    r"""The class of each node, and the names of the classes in their order."""
    text = [_label(value) for value in as_text(column)]
    classes = sorted({value for value in text if value is not None}, key=natural)
    if not classes:
        raise SourceError(f"Column '{name}' of '{path}' has no label: all cells are empty")
    fractions = [value for value in classes if _is_fraction(value)]
    if fractions or len(classes) > max(2, len(text) / 2):
        what = f'fractions ({shown(fractions, 3)})' if fractions else f'{len(classes):,} values'
        raise SourceError(
            f"Column '{name}' of '{path}' must hold classes (got {what} in {len(text):,} rows): "
            f"name the column of classes with '--label'"
        )
    place = {value: i for i, value in enumerate(classes)}
    y = torch.tensor([-1 if value is None else place[value] for value in text])
    unlabelled = int((y < 0).sum())
    more = f'; {unlabelled:,} nodes without a label are neighbours only' if unlabelled else ''
    mapping = shown([f'{value} = {i}' for i, value in enumerate(classes)], 20)
    return y, tuple(classes), Decision('label', (name,), f'{len(classes)} classes: {mapping}{more}')


def _splits(
    table: pd.DataFrame, kept: Sequence[str], path: Path
) -> tuple[dict[str, Tensor], list[str], list[Decision]]:
    r"""The masks, the columns that they come from, and how they were read."""
    named = [name for name in MASKS if name in kept]
    if named and SPLIT in kept:
        raise SourceError(
            f"'{path}' has the column '{SPLIT}' and the columns {named}: leave one out ('--drop')"
        )
    masks = {}
    for name in named:
        if not is_boolean(table[name]) and not set(table[name].dropna().unique()) <= {0, 1}:
            got = shown(sorted({*_filled(table[name])} - {''}), 3)
            raise SourceError(
                f"Column '{name}' of '{path}' must hold true and false, or 1 and 0 (got {got})"
            )
        true = [value in ('true', '1') for value in map(str.lower, _filled(table[name]))]
        masks[name] = torch.tensor(true)
    if SPLIT in kept:
        cells = [value.lower() for value in _filled(table[SPLIT])]
        if unknown := sorted({cell for cell in cells if cell and cell not in SPLITS}):
            raise SourceError(
                f"Column '{SPLIT}' of '{path}' must hold train, val, test or nothing (got "
                f'{shown(unknown, 3)}): rename it if it is a feature, or leave it out '
                f"('--drop {SPLIT}')"
            )
        place = np.array([SPLITS.get(cell, '') for cell in cells])
        masks = {name: torch.from_numpy(place == name) for name in MASKS}
        named = [SPLIT]
    if not masks:
        return {}, [], [Decision('split', (), 'none: random, 50/10/40')]
    sizes = [f'{int(mask.sum()):,} {name[:-5]}' for name, mask in masks.items()]
    return masks, named, [Decision('split', tuple(named), ', '.join(sizes))]


def _filled(column: pd.Series) -> list[str]:
    return ['' if value is None or value in MISSING else value for value in as_text(column)]


def _label(text: str | None) -> str | None:
    r"""The name of a class, or :obj:`None` for a missing label and, as in PyG's graphs, a negative
    one.
    """
    if text is None or text in MISSING or re.fullmatch(r'-\d+(\.0*)?', text):
        return None
    return re.sub(r'^(\d+)\.0*$', r'\1', text)  # a whole number


def _is_fraction(text: str) -> bool:
    return re.fullmatch(r'[+-]?\d*\.\d+([eE][+-]?\d+)?', text) is not None


def _list(names: Sequence[str]) -> str:
    return shown([repr(name) for name in names], 12)


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
    _refuse_unnamed(path, kept)
    ends = _endpoints(path, kept)
    if ends not in ENDPOINTS and {*ends} <= {*ids}:
        raise SourceError(
            f"The first row of '{path}' holds ids of nodes ({', '.join(ends)}) instead of names of "
            f"columns: add a row with names before it, e.g. 'source' and 'target'"
        )
    table = read_table(path, ends)
    if not len(table):
        raise SourceError(f"'{path}' has no rows: a graph needs edges")
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
    if repeated and columns:
        counts += ', their values averaged'
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
            f"The columns {list(ends)} of '{path}' hold {len(unknown):,} "
            f'{"id" if len(unknown) == 1 else "ids"} of no node, in {count:,} '
            f'{"cell" if count == 1 else "cells"}: {shown([repr(value) for value in unknown], 3)} '
            f'(nodes have ids like {shown([repr(id) for id in ids], 3)}). Remove these rows, or '
            f'add the nodes'
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
