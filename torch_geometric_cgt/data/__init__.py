r"""In-neighbours of a graph, token trees, and their views: forest, PyG stores, dense batches."""

from torch_geometric_cgt.data.dense_loader import DenseBatch, DenseLoader
from torch_geometric_cgt.data.edge_values import EDGE_KEYS, EdgeForm, EdgeValues, values_at
from torch_geometric_cgt.data.forest_statistics import ForestStatistics
from torch_geometric_cgt.data.graph_profile import GraphProfile
from torch_geometric_cgt.data.in_neighbors import InNeighbors
from torch_geometric_cgt.data.sharded_rows import ShardedRows
from torch_geometric_cgt.data.stores import (
    CodebookFeatureStore,
    ForestGraphStore,
    LazyForest,
    root_nodes,
)
from torch_geometric_cgt.data.token_trees import (
    MASKS,
    NUM_SPLITS,
    Rows,
    SparseRows,
    TokenTrees,
    masks_of,
    random_split,
    split_of,
    tokens_of,
)
from torch_geometric_cgt.data.tree import Forest, TreeShape, build_forest
from torch_geometric_cgt.data.tree_joining import join_trees

__all__ = [
    'EDGE_KEYS',
    'MASKS',
    'NUM_SPLITS',
    'CodebookFeatureStore',
    'DenseBatch',
    'DenseLoader',
    'EdgeForm',
    'EdgeValues',
    'Forest',
    'ForestGraphStore',
    'ForestStatistics',
    'GraphProfile',
    'InNeighbors',
    'LazyForest',
    'Rows',
    'ShardedRows',
    'SparseRows',
    'TokenTrees',
    'TreeShape',
    'build_forest',
    'join_trees',
    'masks_of',
    'random_split',
    'root_nodes',
    'split_of',
    'tokens_of',
    'values_at',
]
