r"""Compressed tables of numbers, and undirected edges of them within a few bytes per edge."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.errors import SourceError

BLOCK = 1 << 16  # rows


def read_blocks(path: Path, dtype: type) -> Iterator[np.ndarray]:
    r"""Yields the rows of a file in order, in blocks of shape ``[rows, columns]``.

    Args:
        path (Path): A compressed file of comma-separated numbers, no header.
        dtype (type): The type of the numbers.
    """
    row, columns = 0, None
    try:
        with gzip.open(path, 'rt', encoding='ascii') as file:
            while lines := list(islice(file, BLOCK)):
                block: np.ndarray = np.loadtxt(lines, dtype, delimiter=',', comments=None, ndmin=2)
                if columns not in (None, block.shape[1]):
                    raise ValueError(f'the number of columns changed from {columns}')
                columns = block.shape[1]
                row += len(lines)
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"'{path}' cannot be read, load it again: {error}") from error
    except ValueError as error:
        raise SourceError(
            f"'{path}' is not a table of numbers after line {row}: {error}"
        ) from error


def read_table(path: Path, num_rows: int, dtype: type) -> np.ndarray:
    r"""Reads a file whose number of rows is known.

    Args:
        path (Path): A compressed file of comma-separated numbers, no header.
        num_rows (int): The number of rows that it must have.
        dtype (type): The type of the numbers.
    """
    out: np.ndarray[Any, Any] = np.empty((num_rows, 0), dtype)
    row = 0
    for block in read_blocks(path, dtype):
        if row == 0:
            out = np.empty((num_rows, block.shape[1]), dtype)
        out[row : row + len(block)] = block[: num_rows - row]
        row += len(block)
        if row > num_rows:
            break
    if row != num_rows:
        raise SourceError(
            f"'{path}' must have {num_rows} rows (got {'more' if row > num_rows else row})"
        )
    return out


def undirected(blocks: Iterable[np.ndarray], num_edges: int, num_nodes: int) -> Tensor:
    r"""Joins each pair of nodes in both directions, and only once.

    The result is that of :meth:`torch_geometric.utils.to_undirected`, sorted
    by source and target. Edges are sorted in place as one number per
    direction, so that 62 million of them need some 4 GB at the peak, of which
    the result is 2.

    Args:
        blocks (iterable): The edges, in pieces of shape ``[e, 2]``.
        num_edges (int): The number of edges in all pieces together.
        num_nodes (int): The number of nodes; ids must be below it.
    """
    key = np.empty(2 * num_edges, dtype=np.int64)
    done = 0
    for block in blocks:
        a, b = block[:, 0].astype(np.int64), block[:, 1].astype(np.int64)
        key[done : done + len(a)] = a * num_nodes + b
        key[num_edges + done : num_edges + done + len(a)] = b * num_nodes + a
        done += len(a)
    if done != num_edges:
        raise ValueError(f'Expected {num_edges} edges (got {done})')
    key.sort()
    first = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    key = key[first]
    del first
    edge_index = torch.empty(2, len(key), dtype=torch.long)
    source, target = edge_index.numpy()  # views
    np.floor_divide(key, num_nodes, out=source)
    np.multiply(source, num_nodes, out=target)
    np.subtract(key, target, out=target)
    return edge_index
