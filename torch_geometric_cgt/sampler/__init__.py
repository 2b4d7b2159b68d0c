r"""Samplers of computation graphs as trees, in plain torch, and their names."""

from __future__ import annotations

from torch_geometric_cgt.data import InNeighbors
from torch_geometric_cgt.sampler.cluster_gcn import ClusterSampler
from torch_geometric_cgt.sampler.layerwise import FastGCNSampler, LADIESSampler
from torch_geometric_cgt.sampler.neighbors import (
    TreeDraws,
    TreeSampler,
    edges_of_trees,
    sample_children,
    sample_positions,
    sample_trees,
)
from torch_geometric_cgt.sampler.stable_edges import stable_children, unroll_trees
from torch_geometric_cgt.sampler.subgraphs import SAINTSampler, SubgraphSampler
from torch_geometric_cgt.sampler.tree_neighbor_sampler import TreeNeighborSampler

SAMPLERS: dict[str, TreeSampler] = {
    'neighbor': sample_trees,
    'fastgcn': FastGCNSampler(),
    'ladies': LADIESSampler(),
    'cluster': ClusterSampler(),
    'saint': SAINTSampler(),
}

__all__ = [
    'SAMPLERS',
    'ClusterSampler',
    'FastGCNSampler',
    'InNeighbors',
    'LADIESSampler',
    'SAINTSampler',
    'SubgraphSampler',
    'TreeDraws',
    'TreeNeighborSampler',
    'TreeSampler',
    'edges_of_trees',
    'sample_children',
    'sample_positions',
    'sample_trees',
    'stable_children',
    'tree_sampler',
    'unroll_trees',
]


def tree_sampler(sampler: str | TreeSampler) -> TreeSampler:
    r"""Returns the tree sampler with this name and its default arguments.

    Args:
        sampler (str or TreeSampler): The name, or a tree sampler, which is
            returned as it is.
    """
    if isinstance(sampler, str) and sampler in SAMPLERS:
        return SAMPLERS[sampler]
    if isinstance(sampler, (str, type)) or not callable(sampler):
        raise ValueError(
            f"'sampler' must be one of {', '.join(map(repr, SAMPLERS))}, or a tree sampler like "
            f'LADIESSampler(batch_size=512) (got {sampler!r})'
        )
    return sampler
