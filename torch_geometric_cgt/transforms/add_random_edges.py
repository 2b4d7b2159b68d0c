r"""Edge addition: original edges hide among random ones."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import sort_edge_index

from torch_geometric_cgt.transforms.edge_pairs import EdgePairs


@functional_transform('add_random_edges')
class AddRandomEdges(BaseTransform):
    r"""Adds random edges until there are :obj:`factor` times as many, one of
    the CGT paper's simple privacy baselines (functional name:
    :obj:`add_random_edges`).

    New edges are drawn uniformly among the pairs of nodes without one, in both
    directions where the graph is undirected, and all edges are sorted. One of
    :math:`x` edges is then an original one: the re-identification probability
    is :math:`1/x` for an edge, as the paper has it, and 1 for a node. (Its text can also be read as
    :math:`x` times as many edges *more*; that is :obj:`factor=x + 1`, with
    probability :math:`1 / (x + 1)`.)

    Args:
        factor (float): How many times as many edges there are afterwards,
            :math:`x`, at least one.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, factor: float, seed: int = 0) -> None:
        if not 1 <= factor < float('inf'):
            raise ValueError(f"'factor' must be at least 1 (got {factor})")
        self.factor = factor
        self.seed = seed

    @property
    def node_reidentification(self) -> float:
        r"""The probability that the attributes of a node are its own."""
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
        data.edge_index = sort_edge_index(edge_index)  # their order would tell them apart
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(factor={self.factor}, seed={self.seed})'
