r"""Neighbour sampling into trees, in plain torch."""

from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children, sample_positions
from torch_geometric_cgt.sampler.tree_neighbor_sampler import TreeNeighborSampler
from torch_geometric_cgt.sampler.trees import sample_trees

__all__ = [
    'InNeighbors',
    'TreeNeighborSampler',
    'sample_children',
    'sample_positions',
    'sample_trees',
]
