r"""Tables of features, dense or as the few entries that are not zero."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.bags import sum_bags
from torch_geometric_cgt.data.features import Rows, SparseRows
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.quantizer.feature_space import is_bag_of_words


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
