r"""Rows of dense and sparse matrices: blocks, and CSR conversion."""

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK_ELEMENTS = 2**23  # 32 MiB of float32: large enough for fast products, small next to the data


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
