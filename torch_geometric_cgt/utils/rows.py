r"""Rows of dense and sparse matrices: blocks, norms, scaling, order, and CSR conversion."""

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

BLOCK_ELEMENTS = 2**23  # 32 MiB of float32: large enough for fast products, small next to the data
NORM_ELEMENTS = 1 << 24  # elements of dense rows per block of norms
LEAF_SIZE = 8  # So few rows are not ordered any further.
POWER_ITERATIONS = 5  # Any direction of large variance will do.


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    r"""Returns the type to compute in: :obj:`float64` for :obj:`float64`, :obj:`int32` and
    :obj:`int64`, and :obj:`float32` for all other types.
    """
    wide = (torch.float64, torch.int32, torch.int64)
    return torch.float64 if dtype in wide else torch.float32


def rows_per_block(num_columns: int) -> int:
    r"""Returns the number of rows of a block, for rows of :obj:`num_columns` values."""
    return max(1, BLOCK_ELEMENTS // max(num_columns, 1))


def row_blocks(x: Tensor, block_rows: int) -> Iterator[tuple[int, int, Tensor]]:
    r"""Yields :obj:`(start, stop, block)` over the rows of :obj:`x`, in its :meth:`work_dtype`.

    Dense input gives dense blocks. Sparse input (COO, CSR) gives sparse COO blocks of shape
    :obj:`[stop - start, num_features]`; sparse input is never densified.

    Args:
        x (torch.Tensor): The matrix, dense or :obj:`torch.sparse_coo` or :obj:`torch.sparse_csr`.
        block_rows (int): The number of rows per block.
    """
    dtype = work_dtype(x.dtype)
    if x.layout == torch.strided:
        for start in range(0, x.size(0), block_rows):
            stop = min(start + block_rows, x.size(0))
            yield start, stop, x[start:stop].to(dtype)
        return

    x = to_csr(x)
    crow, col, value = x.crow_indices(), x.col_indices(), x.values()
    for start in range(0, x.size(0), block_rows):
        stop = min(start + block_rows, x.size(0))
        first, last = int(crow[start]), int(crow[stop])
        counts = crow[start + 1 : stop + 1] - crow[start:stop]
        row = torch.arange(stop - start, device=x.device).repeat_interleave(counts)
        index = torch.stack([row, col[first:last].long()])
        block = torch.sparse_coo_tensor(
            index, value[first:last].to(dtype), (stop - start, x.size(1)), check_invariants=False
        )
        yield start, stop, block


def block_of(x: Tensor, rows: slice) -> Tensor:
    r"""Returns consecutive rows of a dense or sparse matrix. Dense rows are not copied.

    Args:
        x (torch.Tensor): The matrix, dense or :obj:`torch.sparse_coo` or :obj:`torch.sparse_csr`.
        rows (slice): The rows.
    """
    start, stop, _ = rows.indices(x.size(0))
    if x.layout == torch.strided or (start == 0 and stop == x.size(0)):
        return x[start:stop] if x.layout == torch.strided else x
    x = to_csr(x)
    crow = x.crow_indices()[start : stop + 1]
    first, last = int(crow[0]), int(crow[-1])
    shape = torch.Size([stop - start, x.size(1)])
    return csr_matrix(crow - first, x.col_indices()[first:last], x.values()[first:last], shape)


def to_csr(x: Tensor) -> Tensor:
    r"""Returns :obj:`x` in CSR layout. Duplicate entries are summed."""
    if x.layout == torch.sparse_csr:
        return x
    if x.layout == torch.strided:
        row, col = x.nonzero(as_tuple=True)
        value = x[row, col]
    elif x.layout == torch.sparse_coo:
        # Not every device can coalesce half-precision values.
        if not x.is_coalesced():
            x = x.to(work_dtype(x.dtype)).coalesce()
        (row, col), value = x.indices(), x.values()
    else:
        raise ValueError(
            f"'x' must be dense, sparse COO or sparse CSR (got layout '{x.layout}'): "
            f"convert it with 'x.to_sparse_csr()'"
        )
    crow = torch.zeros(x.size(0) + 1, dtype=torch.long, device=x.device)
    crow[1:] = torch.bincount(row, minlength=x.size(0)).cumsum(0)
    return csr_matrix(crow, col, value, x.shape)


def csr_matrix(crow: Tensor, col: Tensor, value: Tensor, shape: torch.Size) -> Tensor:
    r"""Returns a CSR matrix without PyTorch's warning that the layout is in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', message='Sparse CSR tensor support is in beta')
        return torch.sparse_csr_tensor(crow, col, value, shape, check_invariants=False)


def rank_among_equals(value: Tensor) -> Tensor:
    r"""Returns for each entry the number of earlier entries with the same value.

    Args:
        value (torch.Tensor): The values, ``[n]``, *e.g.*, clusters.
    """
    ordered, order = torch.sort(value, stable=True)
    position = torch.arange(value.numel(), device=value.device)
    rank = torch.empty_like(position)
    rank[order] = position - torch.searchsorted(ordered, ordered)
    return rank


def proximity_order(x: Tensor) -> Tensor:
    r"""Orders rows such that any run of consecutive rows is a compact group.

    The rows are halved recursively along a direction of large variance.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``.

    Returns:
        The indices of the rows in their new order, ``[n]``.
    """
    done, todo = [], [torch.arange(x.size(0))]
    while todo:
        part = todo.pop()
        if part.numel() <= LEAF_SIZE:
            done.append(part)
            continue
        points = x[part] - x[part].mean(dim=0)
        direction = points[points.square().sum(dim=1).argmax()]
        for _ in range(POWER_ITERATIONS):
            direction = points.t() @ (points @ direction)
            direction = direction / direction.norm().clamp(min=1e-12)
        ranked = part[(points @ direction).argsort(stable=True)]
        half = part.numel() // 2
        todo += [ranked[half:], ranked[:half]]  # The first half is visited first.
    return torch.cat(done) if done else torch.arange(0)


def clip_rows(x: Tensor, bound: float) -> Tensor:
    r"""Scales rows down to a norm of at most :obj:`bound`.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
        bound (float): The largest :math:`L_2` norm.
    """
    scale = (bound / row_norms(x).clamp(min=1e-300)).clamp(max=1.0)
    return scale_rows(x, scale)


def row_norms(x: Tensor) -> Tensor:
    r"""The :math:`L_2` norm of each row, ``[n]``, :obj:`float64`. The norms of dense and of
    sparse rows are equal if the sums of squares have no rounding, *e.g.*, for word counts.
    """
    if x.layout == torch.strided:
        blocks = x.split(max(1, NORM_ELEMENTS // max(1, x.size(1))))
        return torch.cat([block.double().norm(dim=1) for block in blocks])
    x = x.to_sparse_coo().coalesce()
    square = torch.zeros(x.size(0), dtype=torch.double)
    square.index_add_(0, x.indices()[0], x.values().double().square())
    # Not `square.sqrt()`: on some processors, its last digit is not the nearest one.
    return torch.from_numpy(np.sqrt(square.numpy()))


def scale_rows(x: Tensor, scale: Tensor) -> Tensor:
    r"""Multiplies each dense or sparse row, ``[n, d]``, by a number, ``[n]``."""
    if x.layout == torch.strided:
        return x * scale[:, None].to(x.dtype)
    x = x.to_sparse_coo().coalesce()
    values = x.values() * scale[x.indices()[0]].to(x.dtype)
    return torch.sparse_coo_tensor(
        x.indices(), values, x.shape, is_coalesced=True, check_invariants=False
    )
