r"""Sparse matrices that stay the same over many products with dense ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


class ConstantMatrix:
    r"""A sparse matrix without a gradient. Its transposed matrix, which the gradient of a product
    needs, is computed once and not for each product.

    Args:
        row (torch.Tensor): The row of each entry, ``[nnz]``.
        column (torch.Tensor): The column of each entry, ``[nnz]``. Entries at the same place are
            added up.
        value (torch.Tensor): The value of each entry, ``[nnz]``.
        shape (tuple[int, int]): The number of rows and of columns.
    """

    def __init__(self, row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> None:
        self.shape = shape
        place, group = (row.long() * shape[1] + column).unique(return_inverse=True)
        value = value.new_zeros(place.numel()).index_add_(0, group, value)
        row, column = place // max(1, shape[1]), place % max(1, shape[1])
        order = column.argsort(stable=True)
        self.rows = _Sums(column, row, value, shape[0])
        self.columns = _Sums(row[order], column[order], value[order], shape[1])

    @classmethod
    def from_sparse(cls, x: Tensor) -> ConstantMatrix:
        r"""A sparse tensor of PyTorch, ``[n, F]``."""
        x = x.to_sparse_coo().coalesce()
        row, column = x.indices()
        return cls(row, column, x.values(), (x.size(0), x.size(1)))

    def __matmul__(self, dense: Tensor) -> Tensor:
        r"""The product with a dense matrix."""
        out: Tensor = _Product.apply(dense, self)
        return out


class _Sums:
    r"""Weighted sums of rows, as :func:`torch.nn.functional.embedding_bag` computes them, which on
    the CPU takes a third of the time of a product of sparse tensors.

    Args:
        index (torch.Tensor): The rows of all sums, one sum after the other, ``[nnz]``.
        of_sum (torch.Tensor): The sum that each of them is in, ``[nnz]``.
        weight (torch.Tensor): Their weights, ``[nnz]``.
        num_sums (int): The number of sums.
    """

    def __init__(self, index: Tensor, of_sum: Tensor, weight: Tensor, num_sums: int) -> None:
        self.index, self.weight = index.int(), weight
        self.start = torch.searchsorted(of_sum.contiguous(), torch.arange(num_sums)).int()

    def __call__(self, dense: Tensor) -> Tensor:
        return F.embedding_bag(
            self.index, dense.contiguous(), self.start, mode='sum', per_sample_weights=self.weight
        )


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: ConstantMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.rows(dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.columns(grad), None
