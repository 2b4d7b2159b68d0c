r"""Neighbour sampling into trees, in plain torch."""

from torch_geometric_cgt.sampler.cluster import ClusterSampler
from torch_geometric_cgt.sampler.layerwise import FastGCNSampler, LADIESSampler
from torch_geometric_cgt.sampler.named import SAMPLERS, tree_sampler
from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children, sample_positions
from torch_geometric_cgt.sampler.saint import SAINTSampler
from torch_geometric_cgt.sampler.subgraphs import SubgraphSampler
from torch_geometric_cgt.sampler.tree_neighbor_sampler import TreeNeighborSampler
from torch_geometric_cgt.sampler.trees import TreeSampler, sample_trees

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
