r"""Tables of features, dense or as the few entries that are not zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.utils.rows import to_csr


@dataclass(frozen=True)
class SparseRows:
    r"""The rows of a matrix with few entries. Unlike a sparse tensor, it can be
    indexed by rows.

    Args:
        column (torch.Tensor): The column of each entry, ``[nnz]``.
        value (torch.Tensor): The value of each entry, ``[nnz]``.
        ptr (torch.Tensor): Where the entries of each row begin, ``[R + 1]``.
        num_columns (int): The number of columns.
    """

    column: Tensor
    value: Tensor
    ptr: Tensor
    num_columns: int

    @classmethod
    def from_matrix(cls, x: Tensor) -> SparseRows:
        r"""Takes a matrix, dense or sparse."""
        csr = to_csr(x)
        return cls(csr.col_indices(), csr.values(), csr.crow_indices(), x.size(1))

    def size(self, dim: int) -> int:
        r"""The number of rows or of columns, as of a tensor."""
        return (self.ptr.numel() - 1, self.num_columns)[dim]

    def __getitem__(self, rows: Tensor) -> SparseRows:
        count = self.ptr[rows + 1] - self.ptr[rows]
        ptr = F.pad(count.cumsum(0), (1, 0))
        shift = (self.ptr[rows] - ptr[:-1]).repeat_interleave(count)
        position = torch.arange(int(ptr[-1])) + shift
        return SparseRows(self.column[position], self.value[position], ptr, self.num_columns)


Rows = Tensor | SparseRows
