r"""Perturbations of edges and attributes, and how well they prevent re-identification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import is_undirected, sort_edge_index

from torch_geometric_cgt.data.graph_checks import check_edges
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.transforms.quantize import Quantize


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
        self.factor = _checked_factor(factor)
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


@functional_transform('add_attribute_noise')
class AddAttributeNoise(BaseTransform):
    r"""Turns zeros of binary feature vectors into ones until each vector has
    :obj:`factor` times as many ones, one of the CGT paper's simple privacy
    baselines (functional name: :obj:`add_attribute_noise`).

    Zeros are drawn uniformly and independently for each node. One in :math:`x`
    ones is then an original one: the re-identification probability is
    :math:`1/x` for a node, as the paper reports, and 1 for an edge. The
    paper's text flips :math:`x s` zeros of a vector with :math:`s` ones, which
    is :obj:`factor=x + 1` here, with probability :math:`1 / (x + 1)`. A vector
    with too few zeros loses all of them.

    Args:
        factor (float): The number of ones afterwards as a multiple of the
            number before, :math:`x`, at least one.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, factor: float, seed: int = 0) -> None:
        self.factor = _checked_factor(factor)
        self.seed = seed

    @property
    def node_reidentification(self) -> float:
        r"""The probability that an attribute of a node is an original one."""
        return 1 / self.factor

    @property
    def edge_reidentification(self) -> float:
        r"""The probability that an edge is an original one."""
        return 1.0

    def forward(self, data: Data) -> Data:
        if data.x is None or data.x.dim() != 2:
            raise SourceError("The graph has no feature matrix 'x'")
        if data.x.layout != torch.strided:
            data.x = data.x.to_dense()
        x = data.x.cpu()
        one = x == 1
        if not bool((one | (x == 0)).all()):
            value = float(x[~(one | (x == 0))][0])
            raise SourceError(
                f"'x' must be binary for attribute noise (got {value:g}): apply "
                f"'NormalizeFeatures' afterwards or not at all"
            )
        count = one.sum(dim=1)
        more = ((self.factor - 1) * count).round().long().minimum(x.size(1) - count)
        rng = torch.Generator().manual_seed(self.seed)
        # Each row is put in random order with its ones last, and its first zeros are flipped.
        score = torch.rand(x.shape, generator=rng).masked_fill(one, 2.0)
        rank = score.argsort(dim=1).argsort(dim=1)
        data.x = (one | (rank < more[:, None])).to(data.x.dtype).to(data.x.device)
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(factor={self.factor}, seed={self.seed})'


class Reidentification(NamedTuple):
    r"""The probability of re-identifying a node's attributes, or an edge."""

    node: float
    edge: float


def reidentification(transforms: Iterable[BaseTransform]) -> Reidentification:
    r"""Returns the probabilities of the paper's comparison of privacy baselines.

    Edge addition (times :math:`x`): :math:`1/x` for an edge; edge deletion
    (share :math:`s`): :math:`1 - s` for an edge; attribute noise (times
    :math:`x`): :math:`1/x` for a node; :math:`k`-anonymity: :math:`1/k` for
    both, as the paper claims for graphs that are generated from it. Transforms
    act independently, and their probabilities are multiplied.

    These are the probabilities of a uniform guess. An attacker with more
    knowledge can do better: random edges connect dissimilar nodes, for example,
    and can be recognised by that.

    Args:
        transforms (list[BaseTransform]): The perturbations.
    """
    node = edge = 1.0
    for transform in transforms:
        if isinstance(transform, Quantize) and transform.method != 'dp':
            node, edge = node / transform.k, edge / transform.k
        elif isinstance(transform, (AddRandomEdges, DropRandomEdges, AddAttributeNoise)):
            node *= transform.node_reidentification
            edge *= transform.edge_reidentification
        else:
            raise ValueError(f'There is no re-identification probability for {transform!r}')
    return Reidentification(node, edge)


def _checked_factor(factor: float) -> float:
    if not 1 <= factor < float('inf'):
        raise ValueError(f"'factor' must be at least 1 (got {factor})")
    return factor
