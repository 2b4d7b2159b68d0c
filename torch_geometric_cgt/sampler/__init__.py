r"""Samplers of computation graphs as trees, in plain torch."""

from torch_geometric_cgt.sampler.cluster_gcn import ClusterSampler
from torch_geometric_cgt.sampler.graph_saint import SAINTSampler
from torch_geometric_cgt.sampler.layerwise import FastGCNSampler, LADIESSampler
from torch_geometric_cgt.sampler.neighbors import (
    InNeighbors,
    TreeSampler,
    sample_children,
    sample_positions,
    sample_trees,
)
from torch_geometric_cgt.sampler.resolver import SAMPLERS, tree_sampler
from torch_geometric_cgt.sampler.subgraphs import SubgraphSampler
from torch_geometric_cgt.sampler.tree_neighbor_sampler import TreeNeighborSampler

__all__ = [
    'SAMPLERS',
    'ClusterSampler',
    'FastGCNSampler',
    'InNeighbors',
    'LADIESSampler',
    'SAINTSampler',
    'SubgraphSampler',
    'TreeNeighborSampler',
    'TreeSampler',
    'sample_children',
    'sample_positions',
    'sample_trees',
    'tree_sampler',
]
