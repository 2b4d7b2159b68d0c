r"""Sums of rows on a grid, and the arithmetic of rows and noisy means."""

from __future__ import annotations

import math

import torch
from torch import Tensor

GRID_BITS = 20  # the noise of all answers has a standard deviation of 2^20 grid steps
BLOCK_ELEMENTS = 1 << 24  # elements of dense rows per block
MARGIN = 1 - 1e-9  # for the rounding of norms


def clip_rows(x: Tensor, bound: float) -> Tensor:
    r"""Scales rows down to a norm of at most :obj:`bound`.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
        bound (float): The largest :math:`L_2` norm.
    """
    scale = (bound / row_norms(x).clamp(min=1e-300)).clamp(max=1.0)
    return scale_rows(x, scale)


def sums_on_grid(x: Tensor, index: Tensor, num_bins: int, bound: float, grid: float) -> Tensor:
    r"""Sums clipped rows per bin, in integer steps of a grid, ``[num_bins, d]``.

    Rows are rounded towards zero to the grid, which increases no norm. A margin
    of :math:`10^{-9}` covers the floating-point rounding of norms. So removing
    one row moves one sum by at most :obj:`bound`, exactly.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
        index (torch.Tensor): The bin of each row, ``[n]``. Rows with a negative
            bin are ignored.
        num_bins (int): The number of bins. It must not depend on the data
            except through private results.
        bound (float): The largest :math:`L_2` norm of a row.
        grid (float): The grid.
    """
    index = check_index(index, num_bins)
    if x.dim() != 2 or x.size(0) != index.numel():
        raise ValueError(
            f"'x' must be [n, d] with a row for each of the {index.numel()} bins "
            f'(got {list(x.shape)})'
        )
    for name, value in (('bound', bound), ('grid', grid)):
        if not 0 < value < math.inf:
            raise ValueError(f"'{name}' must be positive and finite (got {value!r})")
    norms = row_norms(x)
    if not bool(norms.isfinite().all()):
        raise ValueError("'x' must be finite (got NaN, infinite or too large values)")
    if x.size(0) * bound / grid >= 1 << 61:
        raise ValueError(f"'grid' is too small compared with 'bound' (got {grid} and {bound})")
    scale = (bound / norms.clamp(min=1e-300)).clamp(max=1.0) * MARGIN / grid
    total = torch.zeros(num_bins, x.size(1), dtype=torch.long)
    if x.layout != torch.strided:
        x = x.to_sparse_coo().coalesce()
        row, column = x.indices()
        steps = (x.values().double() * scale[row]).trunc().long()
        used = index[row] >= 0
        cell = index[row[used]] * x.size(1) + column[used]
        total.view(-1).index_add_(0, cell, steps[used])
        return total
    block = max(1, BLOCK_ELEMENTS // x.size(1))
    for part in torch.arange(x.size(0)).split(block):
        part = part[index[part] >= 0]
        steps = (x[part].double() * scale[part, None]).trunc().long()
        total.index_add_(0, index[part], steps)
    return total


def noisy_means(sums: Tensor, counts: Tensor, bound: float) -> Tensor:
    r"""Means from noisy sums and noisy counts, clipped to :obj:`bound` like the
    rows. Arithmetic on private results costs nothing.

    Args:
        sums (torch.Tensor): Noisy sums, ``[m, d]``.
        counts (torch.Tensor): Noisy counts, ``[m]``.
        bound (float): The largest :math:`L_2` norm of a row.
    """
    return clip_rows(sums / counts.clamp(min=1)[:, None].to(sums.dtype), bound)


def row_norms(x: Tensor) -> Tensor:
    r"""The :math:`L_2` norm of each row, ``[n]``, :obj:`float64`."""
    if x.layout == torch.strided:
        blocks = x.split(max(1, BLOCK_ELEMENTS // max(1, x.size(1))))
        return torch.cat([block.double().norm(dim=1) for block in blocks])
    x = x.to_sparse_coo().coalesce()
    square = torch.zeros(x.size(0), dtype=torch.double)
    return square.index_add_(0, x.indices()[0], x.values().double().square()).sqrt()


def scale_rows(x: Tensor, scale: Tensor) -> Tensor:
    r"""Multiplies each dense or sparse row, ``[n, d]``, by a number, ``[n]``."""
    if x.layout == torch.strided:
        return x * scale[:, None].to(x.dtype)
    x = x.to_sparse_coo().coalesce()
    values = x.values() * scale[x.indices()[0]].to(x.dtype)
    return torch.sparse_coo_tensor(
        x.indices(), values, x.shape, is_coalesced=True, check_invariants=False
    )


def check_index(index: Tensor, num_bins: int) -> Tensor:
    r"""Raises an error unless the index is a vector of integers below the number of bins."""
    if num_bins < 1:
        raise ValueError(f"'num_bins' must be at least 1 (got {num_bins})")
    if index.dim() != 1 or index.is_floating_point():
        raise ValueError(f"'index' must be a vector of integers (got shape {list(index.shape)})")
    index = index.long()
    if index.numel() > 0 and int(index.max()) >= num_bins:
        raise ValueError(f"'index' must lie below 'num_bins' = {num_bins} (got {int(index.max())})")
    return index
