r"""Tables of numbers in compressed text files, read a block at a time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

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
