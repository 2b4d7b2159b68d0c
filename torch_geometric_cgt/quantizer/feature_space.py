r"""Feature spaces to cluster in: tf-idf and random projections."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.privacy.mechanisms import row_norms, scale_rows
from torch_geometric_cgt.utils.rows import (
    csr_matrix,
    row_blocks,
    rows_per_block,
    to_csr,
    work_dtype,
)

MIN_ZEROS = 0.9  # The least share of zeros in a bag of words.


def is_bag_of_words(x: Tensor) -> bool:
    r"""Whether features look like word counts: none is negative, and more than
    nine in ten are zero.

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


def random_projection(num_features: int, n_components: int, seed: int = 0) -> Tensor:
    r"""Returns random orthogonal directions, ``[num_features, n_components]``,
    scaled such that projected rows keep their squared length on average. They
    do not depend on the data, so they have no privacy cost.

    Args:
        num_features (int): The number of features.
        n_components (int): The number of directions. If it is not below the
            number of features, the result is the identity matrix.
        seed (int, optional): The seed. (default: :obj:`0`)
    """
    if n_components >= num_features:
        return torch.eye(num_features)
    rng = torch.Generator().manual_seed(seed)
    start = torch.randn(num_features, n_components, generator=rng, dtype=torch.double)
    directions = torch.linalg.qr(start).Q
    return (directions * (num_features / n_components) ** 0.5).float()


def multiply_rows(x: Tensor, right: Tensor) -> Tensor:
    r"""Multiplies dense or sparse rows, ``[n, F]``, with a dense matrix, ``[F, d]``."""
    step = rows_per_block(x.size(1))
    return torch.cat([block @ right.to(block.dtype) for _, _, block in row_blocks(x, step)])


def unit_rows(x: Tensor) -> Tensor:
    r"""Divides each dense or sparse row by its length; rows of zeros stay."""
    return scale_rows(x, 1 / row_norms(x).clamp(min=1e-12))
