r"""Bags of words: rare words tell more of a document than common ones."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.utils.rows import (
    csr_matrix,
    row_blocks,
    rows_per_block,
    to_csr,
    work_dtype,
)

MIN_ZEROS = 0.9


def is_bag_of_words(x: Tensor) -> bool:
    r"""Whether features look like counts of words: none below zero, and more
    than nine of ten zero.

    Args:
        x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
    """
    nonzero, lowest = 0, 0.0
    for _, _, block in row_blocks(x, rows_per_block(x.size(1))):
        values = block if block.layout == torch.strided else block._values()
        if values.numel():
            nonzero += int(values.count_nonzero())
            lowest = min(lowest, float(values.min()))
    return lowest >= 0 and nonzero < (1 - MIN_ZEROS) * x.size(0) * x.size(1)


def tf_idf(x: Tensor) -> Tensor:
    r"""Weighs each column by the logarithm of its inverse document frequency
    and scales rows to unit length.

    Args:
        x (torch.Tensor): The bag of words, dense or sparse, ``[N, F]``.

    Returns:
        A sparse matrix in CSR layout.
    """
    x = to_csr(x)
    crow, col = x.crow_indices(), x.col_indices()
    value = x.values().to(work_dtype(x.dtype))
    num_rows, num_columns = x.shape
    frequency = torch.bincount(col[value > 0], minlength=num_columns)
    weighted = value * (torch.log((1 + num_rows) / (1 + frequency)) + 1).to(value.dtype)[col]
    row = torch.arange(num_rows, device=x.device).repeat_interleave(crow.diff())
    square = torch.zeros(num_rows, dtype=value.dtype, device=x.device)
    square.index_add_(0, row, weighted.square())
    weighted = weighted / square.sqrt().clamp(min=1e-12)[row]
    return csr_matrix(crow, col, weighted, x.shape)
