r"""Trees inside subgraphs: of a list, of a loader, or of the random walks of GraphSAINT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import GraphSAINTRandomWalkSampler

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.sampler.neighbors import sample_children, sample_trees
from torch_geometric_cgt.utils.checks import check_positive

T = TypeVar('T')
BACKENDS = ('auto', 'pyg', 'torch')


class SubgraphSampler:
    r"""Samples trees inside the subgraphs of a list or of a loader.

    .. code-block:: python

        data.n_id = torch.arange(data.num_nodes)
        loader = RandomNodeLoader(data, num_parts=10)
        forest = DuplicateEncode([5, 5], sampler=SubgraphSampler(loader))(data)

    A subgraph is a set of nodes with all edges of the graph between them. The
    neighbours of a node are those in the subgraph: all of them, or a uniform
    sample where there are more than the fan-out. A fan-out of the largest
    degree inside the subgraphs keeps all of them. For a root in several
    subgraphs, one of them is drawn uniformly. A root in no subgraph is an
    error. Each call iterates over the subgraphs again. The sampler's generator
    does not control the draws of a loader.

    Args:
        subgraphs (Iterable[torch.Tensor or Data]): The node ids of each
            subgraph, or :class:`~torch_geometric.data.Data` objects with their
            node ids in :obj:`n_id`.
    """

    def __init__(self, subgraphs: Iterable[Tensor | Data]) -> None:
        # An iterator would be exhausted after the first call.
        self.subgraphs = list(subgraphs) if isinstance(subgraphs, Iterator) else subgraphs

    def __call__(
        self,
        graph: InNeighbors,
        root: Tensor,
        shape: TreeShape,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        subgraphs = [_node_ids(item, graph).to(root.device) for item in self.subgraphs]
        return sample_trees_within(graph, subgraphs, root, shape, generator)

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({type(self.subgraphs).__name__})'


def sample_trees_within(
    graph: InNeighbors,
    subgraphs: Sequence[Tensor],
    root: Tensor,
    shape: TreeShape,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Samples the tree of each root inside one of the subgraphs that hold it.

    Args:
        graph (InNeighbors): The graph.
        subgraphs (list[torch.Tensor]): The node ids of each subgraph.
        root (torch.Tensor): The roots, ``[n]``.
        shape (TreeShape): The geometry of the trees.
        generator (torch.Generator, optional): The source of randomness.

    Returns:
        The node id of each breadth-first slot, ``[n, T]``, :obj:`-1` where null.
    """
    subgraphs = [node.unique() for node in subgraphs]
    chosen = _choose_subgraphs(subgraphs, graph.num_nodes, root.device, generator)[root]
    if bool((chosen < 0).any()):
        raise ValueError(
            f'Each root must be in a subgraph (got {int((chosen < 0).sum())} of {root.numel()} '
            f'roots in none, e.g. node {int(root[chosen < 0][0])})'
        )
    tree = root.new_full((root.numel(), shape.num_slots), -1)
    order, sizes = group_by(chosen, len(subgraphs))
    for node, members in zip(subgraphs, order.split(sizes), strict=True):
        if members.numel() > 0:
            place = torch.searchsorted(node, root[members])
            local = sample_trees(graph.within(node), place, shape, generator)
            tree[members] = torch.where(local >= 0, node[local], -1)
    return tree


def group_by(group: Tensor, num_groups: int) -> tuple[Tensor, list[int]]:
    r"""Returns the positions of a tensor ordered by group, and the size of each group."""
    return torch.argsort(group, stable=True), torch.bincount(group, minlength=num_groups).tolist()


def check_backend(backend: str) -> None:
    r"""Raises an error unless the backend is one of :obj:`BACKENDS`."""
    if backend not in BACKENDS:
        raise ValueError(
            f"'backend' must be one of {', '.join(map(repr, BACKENDS))} (got {backend!r})"
        )


def from_pyg(make: Callable[[], T], backend: str, needs: str) -> T | None:
    r"""Returns the result of a PyG loader, or :obj:`None` if plain torch is to be used.

    Args:
        make (callable): Calls the loader.
        backend (str): With :obj:`'torch'`, the loader is not called. If its
            extension is not installed, :obj:`'auto'` gives :obj:`None`, and
            :obj:`'pyg'` an error.
        needs (str): The extension, for the message.
    """
    if backend == 'torch':
        return None
    try:
        return make()
    except ImportError as error:
        if backend == 'auto':
            return None
        raise UnsupportedError(
            f'PyG makes these subgraphs with {needs}, which is not installed; install it, or '
            f"choose the backend 'torch' or 'auto' (PyG says: {error})"
        ) from error


def _choose_subgraphs(
    subgraphs: Sequence[Tensor],
    num_nodes: int,
    device: torch.device,
    generator: torch.Generator | None,
) -> Tensor:
    r"""Draws one of the subgraphs of each node uniformly, :obj:`-1` where it has none."""
    chosen = torch.full((num_nodes,), -1, device=device)
    seen = torch.zeros(num_nodes, dtype=torch.long, device=device)
    for i, node in enumerate(subgraphs):
        # The j-th subgraph of a node replaces the one chosen so far with probability 1 / j.
        seen[node] += 1
        uniform = torch.rand(node.numel(), device=device, generator=generator)
        chosen[node[uniform * seen[node] < 1]] = i
    return chosen


def _node_ids(subgraph: Tensor | Data, graph: InNeighbors) -> Tensor:
    node = getattr(subgraph, 'n_id', None) if isinstance(subgraph, Data) else subgraph
    if not isinstance(node, Tensor) or node.dim() != 1 or node.dtype not in (torch.int, torch.long):
        got = (
            f'{node.dtype} of shape {list(node.shape)}'
            if isinstance(node, Tensor)
            else repr(subgraph)
        )
        raise ValueError(
            "A subgraph must be a vector of node ids, or a 'Data' that has them in 'n_id': set "
            "'data.n_id = torch.arange(data.num_nodes)' before a loader cuts the graph "
            f'(got {got})'
        )
    if node.numel() and not 0 <= int(node.min()) <= int(node.max()) < graph.num_nodes:
        raise ValueError(
            f'Subgraphs must hold node ids from 0 to {graph.num_nodes - 1} '
            f'(got {int(node.min())} to {int(node.max())})'
        )
    return node.long()


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
