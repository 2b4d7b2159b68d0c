r"""Edges as pairs of nodes: an undirected edge is one pair, whatever its directions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from torch_geometric_cgt.transforms.duplicate_encode import check_edges


@dataclass(frozen=True)
class EdgePairs:
    r"""The distinct pairs of a graph, each with a number of its own."""

    key: Tensor  # [P] the distinct pairs, sorted; u * num_nodes + v
    index: Tensor  # [E] the pair of each edge
    num_nodes: int
    undirected: bool

    @classmethod
    def of(cls, data: Data) -> EdgePairs:
        r"""The pairs of a graph, or what is wrong with its edges."""
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
        r"""The number of pairs of different nodes that are not edges."""
        pairs = self.num_nodes * (self.num_nodes - 1)
        loops = int((self.key // self.num_nodes == self.key % self.num_nodes).sum())
        return pairs // (2 if self.undirected else 1) - (self.key.numel() - loops)

    def draw_free(self, size: int, generator: torch.Generator) -> Tensor:
        r"""Draws distinct pairs that are not edges, as edges, ``[2, size]`` or,
        in both directions, ``[2, 2 * size]``.
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
