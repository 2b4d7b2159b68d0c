r"""A PyG sampler in plain torch that keeps the copies of a node apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch_geometric.data import Data, FeatureStore, GraphStore
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)

from torch_geometric_cgt.data import ForestGraphStore, InNeighbors, LazyForest, TreeShape
from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.sampler.neighbors import sample_children, sample_positions


class TreeNeighborSampler(BaseSampler):
    r"""Samples the computation graph of each seed as a separate tree, without
    :obj:`pyg-lib` or :obj:`torch-sparse`.

    .. code-block:: python

        loader = NeighborLoader(
            data,
            num_neighbors=[5, 5],
            neighbor_sampler=TreeNeighborSampler(data, [5, 5]),
            input_nodes=data.train_mask,
        )

    PyG's own sampler adds a node that is reached twice to the batch once. This
    sampler adds it once per visit, which gives duplicate-encoded computation
    graphs. On a forest, where copies already are separate nodes, both give the
    same graph.

    Args:
        data (Data or tuple[FeatureStore, GraphStore]): The homogeneous graph.
        num_neighbors (list[int]): The fan-out of each layer.
        seed (int, optional): Makes batches reproducible. By default, draws
            come from the random state of torch. (default: :obj:`None`)
    """

    def __init__(
        self,
        data: Data | tuple[FeatureStore, GraphStore],
        num_neighbors: Sequence[int],
        seed: int | None = None,
    ) -> None:
        self.graph: InNeighbors | LazyForest
        if isinstance(data, (tuple, list)) and isinstance(data[-1], ForestGraphStore):
            self.graph = data[-1].forest  # Finds children without an edge list.
        else:
            self.graph = InNeighbors.from_edge_index(*_edges_of(data), keep_edge=True)
        self.shape = TreeShape.of(num_neighbors)
        self.seed = seed
        self._generator: torch.Generator | None = None

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    @property
    def edge_permutation(self) -> Tensor | None:
        r"""The position of each edge of the sampler in the given graph."""
        return self.graph.edge if isinstance(self.graph, InNeighbors) else None

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: object) -> SamplerOutput:
        r"""Samples one tree per seed node."""
        seeds = index.node
        nodes, batches = [seeds], [torch.arange(seeds.numel())]
        rows, cols, edges = [], [], []
        first = 0  # local id of the first node of the last layer
        for fan_out in self.shape.num_neighbors:
            parent, edge, child = self._children(nodes[-1], fan_out)
            cols.append(first + parent)
            first += nodes[-1].numel()
            rows.append(first + torch.arange(edge.numel()))
            edges.append(edge)
            nodes.append(child)
            batches.append(batches[-1][parent])
        return SamplerOutput(
            node=torch.cat(nodes),
            row=torch.cat(rows),
            col=torch.cat(cols),
            edge=torch.cat(edges),
            batch=torch.cat(batches),
            num_sampled_nodes=[node.numel() for node in nodes],
            num_sampled_edges=[edge.numel() for edge in edges],
            metadata=(index.input_id, index.time),
        )

    def _children(self, node: Tensor, fan_out: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Draws children, and returns the position of the parent, the edge and the child."""
        if isinstance(self.graph, InNeighbors):
            drawn = sample_children(self.graph, node, fan_out, self.generator)
            parent, slot = (drawn >= 0).nonzero(as_tuple=True)
            edge = drawn[parent, slot]
            return parent, edge, self.graph.source[edge]
        first, degree = self.graph.children(node)
        position = sample_positions(degree, fan_out, self.generator)
        parent, slot = (position >= 0).nonzero(as_tuple=True)
        child = first[parent] + position[parent, slot]
        return parent, self.graph.edge_of(child), child

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput:
        r"""Not supported, since computation graphs are sampled from nodes."""
        raise UnsupportedError(
            'TreeNeighborSampler samples from nodes only; use it with NeighborLoader'
        )

    @property
    def generator(self) -> torch.Generator | None:
        r"""The source of randomness: each worker process has its own stream."""
        if self.seed is not None and self._generator is None:
            worker = get_worker_info()
            stream = 0 if worker is None else 1 + worker.id
            self._generator = torch.Generator().manual_seed(self.seed + stream)
        return self._generator

    def __getstate__(self) -> dict:
        return {**self.__dict__, '_generator': None}

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({self.num_neighbors}, seed={self.seed})'


def _edges_of(data: Data | tuple[FeatureStore, GraphStore]) -> tuple[Tensor, int]:
    if isinstance(data, Data):
        if data.edge_index is None:
            raise ValueError("The graph has no 'edge_index'")
        return data.edge_index.cpu(), int(data.num_nodes or 0)
    if isinstance(data, (tuple, list)) and len(data) == 2 and isinstance(data[1], GraphStore):
        attrs = data[1].get_all_edge_attrs()
        if len(attrs) != 1 or attrs[0].size is None:
            raise ValueError('Expected a graph store with one edge type of known size')
        row, col = data[1].get_edge_index(attrs[0])
        return torch.stack([row, col]), int(attrs[0].size[1])
    raise ValueError(
        f"Expected a homogeneous 'Data' or a tuple of stores (got '{type(data).__name__}')"
    )
