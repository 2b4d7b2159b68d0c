r"""Edge deletion: random edges are removed from a graph."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.transforms.add_random_edges import EdgePairs


@functional_transform('drop_random_edges')
class DropRandomEdges(BaseTransform):
    r"""Deletes a share of the edges, drawn uniformly, one of the CGT paper's
    simple privacy baselines (functional name: :obj:`drop_random_edges`).

    Both directions of an undirected edge are deleted together. An original edge
    is kept, and thereby re-identified, with probability :math:`1 - share`. For
    a node, the probability is 1.

    Args:
        share (float): The share of the edges to delete, between 0 and 1.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, share: float, seed: int = 0) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"'share' must lie between 0 and 1 (got {share})")
        self.share = share
        self.seed = seed

    @property
    def node_reidentification(self) -> float:
        r"""The probability that the attributes of a node are the original ones."""
        return 1.0

    @property
    def edge_reidentification(self) -> float:
        r"""The probability that an original edge is kept."""
        return 1 - self.share

    def forward(self, data: Data) -> Data:
        pairs = EdgePairs.of(data)
        num_pairs = pairs.key.numel()
        order = torch.randperm(num_pairs, generator=torch.Generator().manual_seed(self.seed))
        keep = torch.zeros(num_pairs, dtype=torch.bool)
        keep[order[round(self.share * num_pairs) :]] = True
        kept = keep[pairs.index].to(data.edge_index.device)
        return data.edge_subgraph(kept)

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(share={self.share}, seed={self.seed})'
