r"""Tables of features, dense or as the few entries that are not zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.bags import sum_bags
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.quantizer.rows import to_csr
from torch_geometric_cgt.quantizer.words import is_bag_of_words


@dataclass(frozen=True)
class SparseRows:
    r"""Rows of a bag of words, of which a linear map touches the words alone."""

    column: Tensor  # [nnz]
    value: Tensor  # [nnz]
    ptr: Tensor  # [R + 1]
    num_columns: int

    @classmethod
    def from_matrix(cls, x: Tensor) -> SparseRows:
        r"""Takes a matrix, dense or sparse."""
        csr = to_csr(x)
        return cls(csr.col_indices(), csr.values(), csr.crow_indices(), x.size(1))

    def size(self, dim: int) -> int:
        return (self.ptr.numel() - 1, self.num_columns)[dim]

    def __getitem__(self, rows: Tensor) -> SparseRows:
        count = self.ptr[rows + 1] - self.ptr[rows]
        ptr = F.pad(count.cumsum(0), (1, 0))
        shift = (self.ptr[rows] - ptr[:-1]).repeat_interleave(count)
        position = torch.arange(int(ptr[-1])) + shift
        return SparseRows(self.column[position], self.value[position], ptr, self.num_columns)


Rows = Tensor | SparseRows


def as_rows(x: Tensor) -> Rows:
    r"""The table in the form that is quicker to multiply."""
    if x.layout != torch.strided or is_bag_of_words(x):
        return SparseRows.from_matrix(x.float())
    return x.float()


def drop(x: Rows, p: float, training: bool) -> Rows:
    r"""Dropout of entries; those that are zero stay so in either form."""
    if isinstance(x, Tensor):
        return dropout(x, p, training)
    return SparseRows(x.column, dropout(x.value, p, training), x.ptr, x.num_columns)


def linear(x: Rows, lin: nn.Linear) -> Tensor:
    r"""Applies a linear map without bias."""
    if isinstance(x, Tensor):
        return lin(x)
    return sum_bags(lin.weight.t(), x.column, x.ptr, x.value)


def pad(table: Tensor) -> Tensor:
    r"""The table with one more row, of zeros, for null slots."""
    return F.pad(table, (0, 0, 0, 1))
