r"""Writers of a forest in the formats of other programs, from its columns of nodes, edges, trees
and codebook. None of them needs the other program.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.release.release import Release
from torch_geometric_cgt.release.shards import parts_of
from torch_geometric_cgt.utils.checks import check_memory

BLOCK_ROWS = 1 << 16
BYTES_PER_NODE = 100  # of a forest without its features: edges, masks and temporary tensors
Columns = dict[str, NDArray]
NO_NODE = -1  # token of a null slot


def write_pyg(folder: Path, release: Release) -> None:
    r"""Writes ``data.pt``: the :class:`~torch_geometric.data.Data` object that
    ``dataset[0]`` is. :meth:`torch.load` reads it with ``weights_only=True`` if
    the classes that PyG stores in it are safe globals, see the README.
    """
    num_nodes, width = int(release.trees.real.sum()), release.codebook.size(1)
    check_memory(
        num_nodes * (width * release.codebook.element_size() + BYTES_PER_NODE),
        f"The format 'pyg', one graph of {num_nodes:,} nodes with {width} features each,",
        "export 'npz' or 'parquet', which store every feature vector once",
    )
    torch.save(forest_of(release), folder / 'data.pt')


def write_npz(folder: Path, release: Release) -> None:
    r"""Writes ``forest.npz``, which :func:`numpy.load` reads without pickle."""
    tables = ForestTables.of(release)
    arrays = {'edge_index': np.stack([tables.edges['source'], tables.edges['target']])}
    arrays |= {name: tables.nodes[name] for name in tables.nodes if name != 'node'}
    arrays |= {n: v for n, v in tables.edges.items() if n not in ('source', 'target')}
    arrays |= {f'tree_{name}': tables.trees[name] for name in ('tokens', 'y', 'split')}
    arrays['codebook'] = tables.codebook['x']
    if tables.projection:
        arrays['projection'] = tables.projection['row']
    with open(folder / 'forest.npz', 'wb') as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def write_parquet(folder: Path, release: Release) -> None:
    r"""Writes one Parquet file per table. Vectors are lists of fixed length.

    Nodes, edges and trees of a release in several files are written in as many
    files. They are numbered through, so that the files of a table together are the
    table of the whole release. Only the trees of one file are in memory at a time.
    """
    parts, num_nodes = parts_of(release.trees), 0
    for number, part in enumerate(parts):
        some = release if len(parts) == 1 else replace(release, trees=release.trees.select(part))
        tables = ForestTables.of(some).numbered_from(part.start, num_nodes)
        num_nodes += len(tables.nodes['node'])
        suffix = '' if len(parts) == 1 else f'-{number + 1:05d}-of-{len(parts):05d}'
        for name in ('nodes', 'edges', 'trees'):
            write_table(folder / f'{name}{suffix}.parquet', getattr(tables, name))
    for name in ('codebook', 'projection'):
        if columns := getattr(tables, name):
            write_table(folder / f'{name}.parquet', columns)


def write_table(path: Path, columns: Columns) -> None:
    r"""Writes one table as a Parquet file.

    Args:
        path (Path): The file.
        columns (dict): The columns, with one value or one vector per row.
    """
    arrow, parquet = _arrow()
    arrays = {name: _arrow_column(arrow, value) for name, value in columns.items()}
    parquet.write_table(arrow.table(arrays), path, compression='zstd')


def write_dgl(folder: Path, release: Release) -> None:
    r"""Writes the folder of CSV files that ``dgl.data.CSVDataset`` reads."""
    tables = ForestTables.of(release)
    vectors = [','.join(map(str, row)) for row in tables.codebook['x']]
    renamed = {'node': 'node_id', 'y': 'label', 'source': 'src_id', 'target': 'dst_id'}
    nodes = {renamed.get(name, name): value for name, value in tables.nodes.items()}
    edges = {renamed.get(name, name): value for name, value in tables.edges.items()}
    with open(folder / 'nodes.csv', 'w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow([*nodes, 'feat'])
        clusters = iter(tables.nodes['cluster'].tolist())
        for row in _rows(nodes):
            writer.writerow([*row, vectors[next(clusters)]])
    with open(folder / 'edges.csv', 'w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(edges)
        writer.writerows(map(_joined, _rows(edges)))
    meta = {
        'dataset_name': release.card['source']['name'],
        'edge_data': [{'file_name': 'edges.csv'}],
        'node_data': [{'file_name': 'nodes.csv'}],
    }
    lines = (f'{name}: {json.dumps(value, ensure_ascii=False)}\n' for name, value in meta.items())
    (folder / 'meta.yaml').write_text(''.join(lines), encoding='utf-8')


def write_networkx(folder: Path, release: Release) -> None:
    r"""Writes ``forest.json``, which ``networkx.node_link_graph(content,
    edges='edges')`` turns into a :obj:`DiGraph`. The features of a node are
    ``graph.graph['codebook'][graph.nodes[node]['cluster']]``.
    """
    tables = ForestTables.of(release)
    facts = {
        'name': release.card['source']['name'],
        'num_classes': release.trees.num_classes,
        'num_neighbors': list(release.trees.shape.num_neighbors),
        'codebook': [_shortest(row) for row in tables.codebook['x']],
    }
    if tables.projection:
        facts['projection'] = [_shortest(row) for row in tables.projection['row']]
    nodes = {('id' if name == 'node' else name): value for name, value in tables.nodes.items()}
    with open(folder / 'forest.json', 'w', encoding='utf-8') as file:
        file.write('{"directed": true, "multigraph": false, "graph": ')
        json.dump(facts, file)
        for name, columns in (('nodes', nodes), ('edges', tables.edges)):
            file.write(f',\n"{name}": [')
            for index, row in enumerate(_rows(columns)):
                file.write(',\n' if index else '\n')
                json.dump(dict(zip(columns, row, strict=True)), file)
            file.write('\n]')
        file.write('}\n')


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    r"""The rows of a table as Python values, block by block."""
    length = len(next(iter(columns.values())))
    for start in range(0, length, BLOCK_ROWS):
        block = (_python(value[start : start + BLOCK_ROWS]) for value in columns.values())
        yield from zip(*block, strict=True)


def _python(values: NDArray) -> list[Any]:
    return [_shortest(row) for row in values] if values.dtype.kind == 'f' else values.tolist()


def _shortest(value: Any) -> Any:
    r"""Floats with no more digits than their type needs."""
    return [_shortest(item) for item in value] if np.ndim(value) else float(str(value))


def _joined(row: tuple[Any, ...]) -> list[Any]:
    return [','.join(map(str, value)) if isinstance(value, list) else value for value in row]


def _arrow() -> tuple[ModuleType, ModuleType]:
    r"""Imports :obj:`pyarrow`, or raises an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UnsupportedError(
            "Parquet files need 'pyarrow', which is not installed: run "
            "pip install 'torch-geometric-cgt[files]'"
        ) from error
    return pyarrow, pyarrow.parquet


def _arrow_column(arrow: ModuleType, value: NDArray) -> Any:
    if value.ndim == 1:
        return arrow.array(value)
    return arrow.FixedSizeListArray.from_arrays(arrow.array(value.reshape(-1)), value.shape[1])


@dataclass(frozen=True)
class ForestTables:
    r"""A release as tables of NumPy columns. A column has one value or one
    vector per row.

    Args:
        nodes (dict): The tree and the slot of each node, and all node
            attributes of the forest apart from its features, which are
            ``codebook['x'][nodes['cluster']]``.
        edges (dict): The child (:obj:`source`) and the parent
            (:obj:`target`) of each edge, and all edge attributes.
        trees (dict): The label, the split code and the tokens of each tree;
            :obj:`-1` marks a null slot.
        codebook (dict): The feature vector of each token.
        projection (dict): One row per feature of the source, if the codebook
            is projected; otherwise empty.
    """

    nodes: Columns
    edges: Columns
    trees: Columns
    codebook: Columns
    projection: Columns

    @classmethod
    def of(cls, release: Release) -> ForestTables:
        r"""Converts a release.

        Args:
            release (Release): The release.
        """
        trees = release.trees
        data = trees.to_data(release.codebook[:, :0])  # features follow from clusters
        slot = trees.forest().slot
        nodes = {'tree': slot // trees.shape.num_slots, 'slot': slot % trees.shape.num_slots}
        nodes |= {name: v for name, v in data.to_dict().items() if _is_column(data, name, 'node')}
        source, target = data.edge_index
        edges = {'source': source, 'target': target}
        edges |= {name: v for name, v in data.to_dict().items() if _is_column(data, name, 'edge')}
        tokens = trees.tokens.int().masked_fill(~trees.real, NO_NODE)
        rows = {'tree': torch.arange(len(trees)), 'y': trees.y, 'split': trees.split.long()}
        projection = {} if release.projection is None else {'row': release.projection}
        return cls(
            nodes=_columns({'node': torch.arange(slot.numel()), **nodes}),
            edges=_columns(edges),
            trees=_columns({**rows, 'tokens': tokens}),
            codebook=_columns({'token': torch.arange(trees.num_tokens), 'x': release.codebook}),
            projection=_columns(projection),
        )

    def numbered_from(self, tree: int, node: int) -> ForestTables:
        r"""The tables of trees that are a part of a larger release.

        Args:
            tree (int): The number of trees before this part.
            node (int): The number of nodes before this part.
        """
        nodes = {'node': self.nodes['node'] + node, 'tree': self.nodes['tree'] + tree}
        edges = {name: self.edges[name] + node for name in ('source', 'target')}
        trees = {'tree': self.trees['tree'] + tree}
        return replace(
            self,
            nodes={**self.nodes, **nodes},
            edges={**self.edges, **edges},
            trees={**self.trees, **trees},
        )


def forest_of(release: Release) -> Data:
    r"""The forest of a release as one graph with features.

    Args:
        release (Release): The release.
    """
    return release.trees.to_data(release.codebook)


def _is_column(data: Data, name: str, kind: str) -> bool:
    is_attribute = data.is_node_attr(name) if kind == 'node' else data.is_edge_attr(name)
    return is_attribute and name not in ('x', 'edge_index')


def _columns(tensors: dict[str, Tensor]) -> Columns:
    return {name: _array(value) for name, value in tensors.items()}


def _array(value: Tensor) -> NDArray:
    value = value.detach().cpu()
    if value.dtype == torch.bfloat16:  # NumPy has no such type; float32 holds all its values
        value = value.float()
    return np.ascontiguousarray(value.numpy())
