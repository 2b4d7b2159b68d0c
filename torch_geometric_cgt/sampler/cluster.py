r"""ClusterGCN: computation graphs inside the parts of a partition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData
from torch_geometric.utils import remove_self_loops, to_undirected

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler.backend import check_backend, from_pyg
from torch_geometric_cgt.sampler.neighbors import InNeighbors
from torch_geometric_cgt.sampler.partition import partition
from torch_geometric_cgt.sampler.subgraphs import group_by, sample_trees_within
from torch_geometric_cgt.sampler.validate import check_positive


@dataclass(frozen=True)
class ClusterSampler:
    r"""Samples trees inside the subgraphs of `"Cluster-GCN"
    <https://arxiv.org/abs/1905.07953>`_.

    The nodes are partitioned so that few edges run between parts, and a
    subgraph is one part or several parts at random, with all edges of the
    graph between its nodes. Inside its subgraph, a node has all its
    neighbours, or as many as its fan-out (see :class:`SubgraphSampler`).

    PyG's :class:`~torch_geometric.loader.ClusterData` finds the parts with
    METIS, which comes with :obj:`pyg-lib`, or with :obj:`torch-sparse` if that
    was built with it. Without them, a simpler method finds other parts in
    plain torch (see :meth:`~torch_geometric_cgt.sampler.partition.partition`).
    One part needs neither.

    Args:
        num_parts (int, optional): The number of parts. By default, one for
            every 500 nodes. (default: :obj:`None`)
        batch_size (int, optional): The number of parts that are joined to a
            subgraph. (default: :obj:`1`)
        backend (str, optional): :obj:`'pyg'`, :obj:`'torch'`, or
            :obj:`'auto'`: PyG where it can. (default: :obj:`'auto'`)
    """

    num_parts: int | None = None
    batch_size: int = 1
    backend: str = 'auto'

    def __post_init__(self) -> None:
        check_positive(batch_size=self.batch_size)
        if self.num_parts is not None:
            check_positive(num_parts=self.num_parts)
        check_backend(self.backend)

    def __call__(
        self,
        graph: InNeighbors,
        root: Tensor,
        shape: TreeShape,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        num_parts = self.num_parts or max(1, graph.num_nodes // 500)
        if num_parts > graph.num_nodes:
            raise ValueError(
                f"'num_parts' must not exceed the number of nodes "
                f'(got {num_parts} parts of {graph.num_nodes} nodes)'
            )
        part: Tensor | None = torch.zeros_like(graph.ptr[:-1])
        if num_parts > 1:
            part = from_pyg(
                lambda: _metis(graph, num_parts),
                self.backend,
                'METIS from pyg-lib, or from torch-sparse built with it',
            )
        if part is None:
            part = partition(graph, num_parts, generator)
        order = torch.randperm(num_parts, generator=generator, device=part.device)
        batch = order[part] // self.batch_size
        node, sizes = group_by(batch, -(-num_parts // self.batch_size))
        return sample_trees_within(graph, node.split(sizes), root, shape, generator)


def _metis(graph: InNeighbors, num_parts: int) -> Tensor:
    edge_index = remove_self_loops(torch.stack([graph.source, graph.target]).cpu())[0]
    data = Data(
        edge_index=to_undirected(edge_index, num_nodes=graph.num_nodes),  # METIS expects it
        num_nodes=graph.num_nodes,
        n_id=torch.arange(graph.num_nodes),
    )
    clusters = ClusterData(data, num_parts, log=False)
    part = torch.empty(graph.num_nodes, dtype=torch.long)
    for i in range(num_parts):
        part[clusters[i].n_id] = i
    return part.to(graph.ptr.device)
