r"""Edge addition: random edges are added to a graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import is_undirected, sort_edge_index

from torch_geometric_cgt.transforms.duplicate_encode import check_edges


@functional_transform('add_random_edges')
class AddRandomEdges(BaseTransform):
    r"""Adds random edges until there are :obj:`factor` times as many, one of
    the CGT paper's simple privacy baselines (functional name:
    :obj:`add_random_edges`).

    New edges are drawn uniformly from the pairs of nodes without an edge, in
    both directions if the graph is undirected, and all edges are sorted. One in
    :math:`x` edges is then an original one: the re-identification probability
    is :math:`1/x` for an edge, as the paper reports, and 1 for a node. The
    paper's text can also be read as adding :math:`x` times as many edges, which
    is :obj:`factor=x + 1` here, with probability :math:`1 / (x + 1)`.

    Args:
        factor (float): The number of edges afterwards as a multiple of the
            number before, :math:`x`, at least one.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, factor: float, seed: int = 0) -> None:
        if not 1 <= factor < float('inf'):
            raise ValueError(f"'factor' must be at least 1 (got {factor})")
        self.factor = factor
        self.seed = seed

    @property
    def node_reidentification(self) -> float:
        r"""The probability that the attributes of a node are the original ones."""
        return 1.0

    @property
    def edge_reidentification(self) -> float:
        r"""The probability that an edge is an original one."""
        return 1 / self.factor

    def forward(self, data: Data) -> Data:
        pairs = EdgePairs.of(data)
        for key in data.edge_attrs():
            if key != 'edge_index':
                raise ValueError(f"Random edges have no '{key}'; remove it from the graph first")
        size = round((self.factor - 1) * pairs.key.numel())
        if size > pairs.num_free:
            raise ValueError(
                f"'factor' asks for {size} more edges, but only {pairs.num_free} pairs of nodes "
                f'have none (got {self.factor})'
            )
        new = pairs.draw_free(size, torch.Generator().manual_seed(self.seed))
        edge_index = torch.cat([data.edge_index, new.to(data.edge_index.device)], dim=1)
        data.edge_index = sort_edge_index(edge_index)  # Their order would reveal the new ones.
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(factor={self.factor}, seed={self.seed})'


@dataclass(frozen=True)
class EdgePairs:
    r"""The edges of a graph as distinct pairs of nodes. The two directions of an
    undirected edge are one pair.
    """

    key: Tensor  # [P] the distinct pairs as u * num_nodes + v, sorted
    index: Tensor  # [E] the pair of each edge
    num_nodes: int
    undirected: bool

    @classmethod
    def of(cls, data: Data) -> EdgePairs:
        r"""Finds the pairs of a graph, and raises an error if its edges are invalid."""
        edge_index = check_edges(data).cpu()
        num_nodes = int(data.num_nodes or 0)
        undirected = is_undirected(edge_index, num_nodes=num_nodes)
        u, v = edge_index
        if undirected:
            u, v = torch.minimum(u, v), torch.maximum(u, v)
        key, index = (u * num_nodes + v).unique(return_inverse=True)
        return cls(key, index, num_nodes, undirected)

    @property
    def num_free(self) -> int:
        r"""The number of pairs of different nodes without an edge."""
        pairs = self.num_nodes * (self.num_nodes - 1)
        loops = int((self.key // self.num_nodes == self.key % self.num_nodes).sum())
        return pairs // (2 if self.undirected else 1) - (self.key.numel() - loops)

    def draw_free(self, size: int, generator: torch.Generator) -> Tensor:
        r"""Draws distinct pairs without an edge, and returns them as edges,
        ``[2, size]``, or ``[2, 2 * size]`` in both directions if undirected.
        """
        found = torch.empty(0, dtype=torch.long)
        while found.numel() < size:
            missing = size - found.numel()
            ends = torch.randint(
                self.num_nodes, (2, missing + missing // 4 + 16), generator=generator
            )
            u, v = ends[:, ends[0] != ends[1]]
            if self.undirected:
                u, v = torch.minimum(u, v), torch.maximum(u, v)
            new = u * self.num_nodes + v
            new = new[~torch.isin(new, self.key)]
            found = torch.cat([found, new]).unique()
        found = found[torch.randperm(found.numel(), generator=generator)[:size]]
        edges = torch.stack([found // self.num_nodes, found % self.num_nodes])
        return torch.cat([edges, edges.flip(0)], dim=1) if self.undirected else edges
