r"""The layers and GNNs of :mod:`torch_geometric_cgt.nn` under their old name, and their input."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data.token_trees import Rows, SparseRows
from torch_geometric_cgt.nn.tree_convs import (
    AttentionConv,
    MeanConv,
    PlainMeanConv,
    SAGEConv,
    SampledMeanConv,
    SumConv,
    TreeConv,
    csr_matmul,
    linear,
    parents_with_children,
    weighted_sum,
)
from torch_geometric_cgt.nn.tree_gnns import GNN, PPNP, TreeGNN, lookup
from torch_geometric_cgt.quantizer.feature_space import is_bag_of_words

__all__ = [
    'GNN',
    'PPNP',
    'AttentionConv',
    'MeanConv',
    'PlainMeanConv',
    'SAGEConv',
    'SampledMeanConv',
    'SumConv',
    'TreeConv',
    'TreeGNN',
    'as_rows',
    'csr_matmul',
    'linear',
    'lookup',
    'parents_with_children',
    'weighted_sum',
]


def as_rows(x: Tensor) -> Rows:
    r"""The table in the form that is faster to multiply: :class:`SparseRows`
    for a sparse matrix or a bag of words, a dense tensor otherwise.
    """
    if x.layout != torch.strided or is_bag_of_words(x):
        return SparseRows.from_matrix(x.float())
    return x.float()
