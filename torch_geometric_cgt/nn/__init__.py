r"""The generator, which sees tokens only, and GNNs on trees of one shape."""

from torch_geometric_cgt.nn.cgt_generator import CGTGenerator
from torch_geometric_cgt.nn.codebook_embedding import CodebookEmbedding
from torch_geometric_cgt.nn.tree_convs import (
    AttentionConv,
    MeanConv,
    PlainMeanConv,
    SAGEConv,
    SumConv,
    TreeConv,
    TreeGCNConv,
)
from torch_geometric_cgt.nn.tree_gnns import PPNP, TreeGNN

__all__ = [
    'PPNP',
    'AttentionConv',
    'CGTGenerator',
    'CodebookEmbedding',
    'MeanConv',
    'PlainMeanConv',
    'SAGEConv',
    'SumConv',
    'TreeConv',
    'TreeGCNConv',
    'TreeGNN',
]
