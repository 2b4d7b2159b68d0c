r"""Noisy edges: random neighbours for every node."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.transforms.duplicate_encode import check_edges


@functional_transform('add_noisy_edges')
class AddNoisyEdges(BaseTransform):
    r"""Adds edges from uniformly drawn nodes to every node, as in the paper's
    first two scenarios (functional name: :obj:`add_noisy_edges`).

    Increase the fan-outs of computation graphs by the same number, so that
    noisy neighbours do not displace real ones.

    Args:
        num_edges (int): The number of incoming edges added to each node.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, num_edges: int, seed: int = 0) -> None:
        if num_edges < 0:
            raise ValueError(f"'num_edges' must not be negative (got {num_edges})")
        self.num_edges = num_edges
        self.seed = seed

    def forward(self, data: Data) -> Data:
        edge_index = check_edges(data)
        num_nodes = int(data.num_nodes or 0)
        rng = torch.Generator().manual_seed(self.seed)
        target = torch.arange(num_nodes).repeat_interleave(self.num_edges)
        source = torch.randint(num_nodes, (target.numel(),), generator=rng)
        noise = torch.stack([source, target]).to(edge_index.device)
        for key in data.edge_attrs():
            if key != 'edge_index':
                raise ValueError(f"Noisy edges have no '{key}'; remove it from the graph first")
        data.edge_index = torch.cat([edge_index, noise], dim=1)
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(num_edges={self.num_edges}, seed={self.seed})'
