r"""Token trees, their geometry, and their views as a forest and as PyG stores."""

from torch_geometric_cgt.data.forest import Forest, build_forest
from torch_geometric_cgt.data.split import MASKS, NUM_SPLITS, masks_of, random_split, split_of
from torch_geometric_cgt.data.stores import (
    CodebookFeatureStore,
    ForestGraphStore,
    LazyForest,
    root_nodes,
)
from torch_geometric_cgt.data.token_trees import Rows, SparseRows, TokenTrees, tokens_of
from torch_geometric_cgt.data.tree import TreeShape

__all__ = [
    'MASKS',
    'NUM_SPLITS',
    'CodebookFeatureStore',
    'Forest',
    'ForestGraphStore',
    'LazyForest',
    'Rows',
    'SparseRows',
    'TokenTrees',
    'TreeShape',
    'build_forest',
    'masks_of',
    'random_split',
    'root_nodes',
    'split_of',
    'tokens_of',
]
