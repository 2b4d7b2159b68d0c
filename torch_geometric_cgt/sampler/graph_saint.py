r"""GraphSAINT: trees inside subgraphs of random walks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import GraphSAINTRandomWalkSampler

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler.neighbors import InNeighbors, sample_children
from torch_geometric_cgt.sampler.subgraphs import check_backend, from_pyg, sample_trees_within
from torch_geometric_cgt.utils.checks import check_positive


@dataclass(frozen=True)
class SAINTSampler:
    r"""Samples trees inside the random-walk subgraphs of `"GraphSAINT"
    <https://arxiv.org/abs/1907.04931>`_.

    A subgraph holds the nodes of :obj:`batch_size` random walks, with all
    edges of the graph between them. Walks go from a node to one of its
    in-neighbours, as trees do. Inside its subgraph, a node has all its
    neighbours, or as many as its fan-out (see :class:`SubgraphSampler`).

    With :obj:`torch-sparse`, PyG's
    :class:`~torch_geometric.loader.GraphSAINTRandomWalkSampler` makes as many
    walks as the graph has nodes. Plain torch then makes one walk from each
    root that no walk has visited. Without :obj:`torch-sparse`, these are all
    roots.

    Args:
        batch_size (int, optional): The number of walks per subgraph.
            (default: :obj:`512`)
        walk_length (int, optional): The number of steps of a walk.
            (default: :obj:`2`)
        backend (str, optional): :obj:`'pyg'`, :obj:`'torch'`, or
            :obj:`'auto'`: PyG if :obj:`torch-sparse` is
            installed. (default: :obj:`'auto'`)
    """

    batch_size: int = 512
    walk_length: int = 2
    backend: str = 'auto'

    def __post_init__(self) -> None:
        check_positive('batch_size', self.batch_size)
        check_positive('walk_length', self.walk_length)
        check_backend(self.backend)

    def __call__(
        self,
        graph: InNeighbors,
        root: Tensor,
        shape: TreeShape,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        made = from_pyg(lambda: self._from_pyg(graph, generator), self.backend, 'torch-sparse')
        subgraphs = made or []
        start = root.unique()
        if subgraphs:
            start = start[~torch.isin(start, torch.cat(subgraphs))]
        order = torch.randperm(start.numel(), generator=generator, device=start.device)
        for batch in start[order].split(self.batch_size):
            subgraphs.append(random_walks(graph, batch, self.walk_length, generator).view(-1))
        return sample_trees_within(graph, subgraphs, root, shape, generator)

    def _from_pyg(self, graph: InNeighbors, generator: torch.Generator | None) -> list[Tensor]:
        # PyG walks along the edges, so they point from a node to its in-neighbours here. At a
        # node without any, PyG reads beyond the row: a self-loop prevents that.
        lone = (graph.ptr.diff() == 0).nonzero().view(-1)
        ends = torch.cat([graph.target, lone]), torch.cat([graph.source, lone])
        data = Data(edge_index=torch.stack(ends).cpu(), num_nodes=graph.num_nodes)
        data.n_id = torch.arange(graph.num_nodes)
        loader = GraphSAINTRandomWalkSampler(
            data,
            batch_size=self.batch_size,
            walk_length=self.walk_length,
            num_steps=ceil(graph.num_nodes / self.batch_size),
        )
        device = graph.ptr.device
        seed = torch.randint(2**31, (1,), generator=generator, device=device)
        with torch.random.fork_rng(devices=[]):  # The extension draws from the global state.
            torch.default_generator.manual_seed(int(seed))
            return [subgraph.n_id.to(device) for subgraph in loader]


def random_walks(
    graph: InNeighbors, start: Tensor, walk_length: int, generator: torch.Generator | None = None
) -> Tensor:
    r"""Makes one random walk from each node along in-neighbours. A walk stays at
    a node without in-neighbours.

    Args:
        graph (InNeighbors): The graph.
        start (torch.Tensor): The first node of each walk, ``[n]``.
        walk_length (int): The number of steps.
        generator (torch.Generator, optional): The source of randomness.

    Returns:
        The nodes of each walk, ``[n, walk_length + 1]``.
    """
    walk = [start]
    for _ in range(walk_length):
        edge = sample_children(graph, walk[-1], 1, generator).view(-1)
        step = walk[-1].clone()
        step[edge >= 0] = graph.source[edge[edge >= 0]]
        walk.append(step)
    return torch.stack(walk, dim=1)
