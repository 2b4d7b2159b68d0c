r"""Neighbour sampling into trees, in plain torch."""

from torch_geometric_cgt.sampler.layerwise import FastGCNSampler, LADIESSampler
from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children, sample_positions
from torch_geometric_cgt.sampler.tree_neighbor_sampler import TreeNeighborSampler
from torch_geometric_cgt.sampler.trees import TreeSampler, sample_trees

__all__ = [
    'FastGCNSampler',
    'InNeighbors',
    'LADIESSampler',
    'TreeNeighborSampler',
    'TreeSampler',
    'sample_children',
    'sample_positions',
    'sample_trees',
]
