r"""Operations on tables of features, dense or sparse, and sparse products with a fast gradient."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from torch_geometric_cgt.data.token_trees import Rows, SparseRows
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.quantizer.feature_space import is_bag_of_words


def as_rows(x: Tensor) -> Rows:
    r"""The table in the form that is faster to multiply: :class:`SparseRows`
    for a sparse matrix or a bag of words, a dense tensor otherwise.
    """
    if x.layout != torch.strided or is_bag_of_words(x):
        return SparseRows.from_matrix(x.float())
    return x.float()


def dropout_rows(x: Rows, p: float, training: bool) -> Rows:
    r"""Dropout of the entries of a table."""
    if isinstance(x, Tensor):
        return dropout(x, p, training)
    return SparseRows(x.column, dropout(x.value, p, training), x.ptr, x.num_columns)


def linear(x: Rows, lin: nn.Linear) -> Tensor:
    r"""Applies a linear map without bias."""
    if isinstance(x, Tensor):
        return lin(x)
    return csr_matmul(x.ptr, x.column, x.value, lin.weight.t())


def pad_null(table: Tensor) -> Tensor:
    r"""Appends a row of zeros: the features of the null token."""
    return F.pad(table, (0, 0, 0, 1))


def csr_matmul(ptr: Tensor, column: Tensor, value: Tensor, dense: Tensor) -> Tensor:
    r"""The product of a sparse CSR matrix and a dense one, ``[n, H]``.

    On the CPU, the gradient of :func:`torch.nn.functional.embedding_bag` with
    respect to the dense matrix takes several times as long as the product.
    The gradient is a product with the transposed sparse matrix, and is
    computed as such here.

    Args:
        ptr (torch.Tensor): Where the entries of each row begin, ``[n + 1]``.
        column (torch.Tensor): The column of each entry, ``[nnz]``.
        value (torch.Tensor): The value of each entry, ``[nnz]``.
        dense (torch.Tensor): The dense matrix, ``[R, H]``.
    """
    if dense.device.type != 'cpu':
        return F.embedding_bag(column, dense, ptr[:-1], mode='sum', per_sample_weights=value)
    return _CSRMatmul.apply(ptr, column, value, dense)


def weighted_sum(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    r"""Weighted sums of the same number of rows each, ``[..., H]``.

    Args:
        table (torch.Tensor): The rows, ``[R, H]``.
        index (torch.Tensor): The rows of each sum, ``[..., m]``.
        weight (torch.Tensor): Their weights, ``[..., m]``.
    """
    ptr = torch.arange(0, index.numel() + 1, index.size(-1), device=index.device)
    out = csr_matmul(ptr, index.reshape(-1), weight.reshape(-1), table)
    return out.view(*index.shape[:-1], table.size(1))


class _CSRMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ptr: Tensor, column: Tensor, value: Tensor, dense: Tensor) -> Tensor:
        dense = dense.contiguous()  # sums of contiguous rows are many times faster
        ctx.save_for_backward(ptr, column, value, dense)
        return F.embedding_bag(column, dense, ptr[:-1], mode='sum', per_sample_weights=value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
        ptr, column, value, dense = ctx.saved_tensors
        grad_value = grad_dense = None
        if ctx.needs_input_grad[3]:  # the transposed matrix: its entries sorted by column
            key, order = column.int().sort()
            row = torch.arange(ptr.numel() - 1).repeat_interleave(ptr.diff())
            grad_dense = F.embedding_bag(
                row.index_select(0, order),
                grad.contiguous(),
                torch.searchsorted(key, torch.arange(dense.size(0), dtype=torch.int32)),
                mode='sum',
                per_sample_weights=value.index_select(0, order),
            )
        if ctx.needs_input_grad[2]:  # PyTorch's own gradient is fast here
            with torch.enable_grad():
                leaf = value.detach().requires_grad_()
                out = F.embedding_bag(column, dense, ptr[:-1], mode='sum', per_sample_weights=leaf)
            (grad_value,) = torch.autograd.grad(out, leaf, grad.contiguous())
        return None, None, grad_value, grad_dense
