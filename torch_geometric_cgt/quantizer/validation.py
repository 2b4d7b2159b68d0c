r"""Checks of the matrices, labels and sizes given to a clustering."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.utils.checks import check_positive
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block, work_dtype


def as_matrix(x: Any, name: str = 'X') -> Tensor:
    r"""Returns :obj:`x` as a two-dimensional tensor of finite numbers, without a copy if possible.

    Args:
        x (torch.Tensor or array-like): The matrix, dense or sparse.
        name (str, optional): The name of the argument, for messages. (default: :obj:`"X"`)
    """
    if not isinstance(x, Tensor):
        array = np.asarray(x)
        if array.dtype.kind not in 'fiub':
            raise ValueError(f"'{name}' must hold numbers (got dtype '{array.dtype}')")
        if array.dtype.itemsize > 8:
            array = array.astype(np.float64)  # Torch has no wider type.
        array = np.require(array, array.dtype.newbyteorder('='), ['C', 'W'])
        x = torch.from_numpy(array)
    if x.is_complex():
        raise ValueError(f"'{name}' must hold real numbers (got dtype '{x.dtype}')")
    if x.dim() != 2:
        raise ValueError(
            f"'{name}' must have two dimensions, [num_rows, num_features] "
            f'(got shape {list(x.shape)})'
        )
    if x.size(0) == 0 or x.size(1) == 0:
        raise ValueError(
            f"'{name}' must have at least one row and one column (got shape {list(x.shape)})"
        )
    x = x.detach()
    _check_finite(x, name)
    return x


def check_sizes(num_rows: int, n_clusters: int, size_min: int) -> None:
    r"""Checks that :obj:`n_clusters` clusters of :obj:`size_min` rows can exist."""
    for name, value in (('n_clusters', n_clusters), ('size_min', size_min)):
        check_positive(name, value)
    if size_min > num_rows:
        raise ValueError(
            f"'size_min' must not exceed the number of rows, {num_rows} "
            f"(got {size_min}): lower 'size_min'"
        )
    if n_clusters * size_min > num_rows:
        raise ValueError(
            f"'n_clusters' * 'size_min' must not exceed the number of rows, "
            f'{num_rows} (got {n_clusters} * {size_min} = {n_clusters * size_min}): '
            f"use at most {num_rows // size_min} clusters or a smaller 'size_min'"
        )


def as_labels(y: Any, num_rows: int, name: str = 'y', lowest: int = -1) -> Tensor:
    r"""Returns :obj:`y` as a vector of :obj:`num_rows` integers not below :obj:`lowest`."""
    y = y.detach().cpu() if isinstance(y, Tensor) else torch.from_numpy(np.array(y))
    if y.dim() != 1 or y.numel() != num_rows:
        raise ValueError(
            f"'{name}' must be a vector with one entry for each of the {num_rows} "
            f'rows (got shape {list(y.shape)})'
        )
    if y.is_floating_point() or y.is_complex():
        raise ValueError(f"'{name}' must hold integers (got dtype '{y.dtype}')")
    y = y.long()
    if y.numel() > 0 and int(y.min()) < lowest:
        raise ValueError(f"'{name}' must not hold values below {lowest} (got {int(y.min())})")
    return y


def check_diversity(y: Tensor | None, min_labels: int | None) -> None:
    r"""Checks that every cluster could hold :obj:`min_labels` distinct labels of :obj:`y`."""
    if min_labels is None:
        return
    check_positive('min_labels', min_labels)
    if y is None:
        raise ValueError(
            f"'min_labels' needs labels (got min_labels={min_labels} and y=None): call 'fit(X, y)'"
        )
    distinct = int(y[y >= 0].unique().numel())
    if distinct < min_labels:
        raise ValueError(
            f"'min_labels' must not exceed the number of distinct labels in 'y', "
            f"{distinct} (got {min_labels}): lower 'min_labels'"
        )


def _check_finite(x: Tensor, name: str) -> None:
    r"""Raises an error for values that are not finite, or so large that their squares overflow."""
    largest = 0.0
    if x.layout == torch.strided:
        blocks = (block for _, _, block in row_blocks(x, rows_per_block(x.size(1))))
        for block in blocks:
            largest = max(largest, _largest(block, name))
    elif x.layout == torch.sparse_coo:
        largest = _largest(x._values(), name)
    else:
        largest = _largest(x.values(), name)
    limit = 1e140 if work_dtype(x.dtype) == torch.float64 else 1e15
    if largest > limit:
        raise ValueError(
            f"'{name}' must stay below {limit:g} in magnitude, so that squares can be "
            f'summed (got {largest:g}): scale it down'
        )


def _largest(values: Tensor, name: str) -> float:
    r"""Returns the largest magnitude, and raises an error where it is not finite."""
    if values.numel() == 0:
        return 0.0
    largest = float(values.abs().max())  # NaN and infinity propagate through the maximum.
    if not math.isfinite(largest):
        bad = int((~values.isfinite()).sum())
        raise ValueError(
            f"'{name}' must be finite (got NaN or infinity in at least {bad} "
            f'places): remove or impute those values'
        )
    return largest
