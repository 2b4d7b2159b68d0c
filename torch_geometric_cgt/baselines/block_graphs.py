r"""Random graphs with given degrees, as graphs and as tree models: the configuration model and a
stochastic block model.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from torch_geometric_cgt.baselines.graph_model import GraphModel
from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.data.end_matching import is_member, pair_equal
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeSource
from torch_geometric_cgt.utils.seeds import seeded

ROUNDS = 20  # of pairing the ends that would make a self-loop or a repeated edge

Model = TypeVar('Model', bound='_BlockGraph')


class _BlockGraph(ABC):
    r"""A random graph that keeps the degrees, the labels and the splits of all
    nodes, and the number of edges between blocks of nodes.

    The features of a node are a row of the codebook, which is drawn given its
    label. They are as well protected as the codebook. Degrees, labels and
    the numbers of edges are those of the source, without any protection.
    """

    def fit(self: Model, data: Data) -> Model:
        r"""Learns from a graph and returns itself.

        Args:
            data (Data): The graph, with :obj:`y`, and with :obj:`cluster` and
                :obj:`codebook` as
                :class:`~torch_geometric_cgt.transforms.Quantize` adds them.
        """
        missing = [name for name in ('y', 'cluster', 'codebook') if data.get(name) is None]
        if missing:
            raise ValueError(f"The graph has no {missing}: apply the transform 'Quantize' to it")
        num_nodes = int(data.num_nodes or 0)
        edges = to_undirected(remove_self_loops(data.edge_index.cpu())[0], num_nodes=num_nodes)
        self.num_nodes_ = num_nodes
        self.y_ = data.y.cpu().long()
        self.codebook_ = data.codebook.cpu()
        self.masks_ = {name: data[name].cpu() for name in MASKS if name in data}
        self.degree_ = torch.bincount(edges[0], minlength=num_nodes)
        self.block_ = self._blocks(self.y_)
        self.num_blocks_ = int(self.block_.max()) + 1 if num_nodes else 0
        pair = self.block_[edges[0]] * self.num_blocks_ + self.block_[edges[1]]
        size = (self.num_blocks_, self.num_blocks_)
        self.num_edges_ = torch.bincount(pair, minlength=self.num_blocks_**2).view(size)
        label = self.y_ - int(self.y_.min()) if num_nodes else self.y_
        num_tokens = self.codebook_.size(0)
        joint = torch.bincount(label * num_tokens + data.cluster.cpu().long())
        joint = torch.nn.functional.pad(joint, (0, -joint.numel() % num_tokens))
        self.num_tokens_ = joint.view(-1, num_tokens)  # [label, token]
        self.label_ = label
        return self

    def sample(self, seed: int = 0) -> Data:
        r"""Draws a graph.

        Args:
            seed (int, optional): The same seed gives the same graph.
                (default: :obj:`0`)
        """
        if not hasattr(self, 'y_'):
            raise ValueError(f"Call '{self.__class__.__name__}.fit(data)' before 'sample()'")
        generator = seeded(seed, self.__class__.__name__)
        token = self._tokens(generator)
        data = Data(x=self.codebook_[token], edge_index=self._edges(generator), y=self.y_.clone())
        data.token = token
        data.update(copy.deepcopy(self.masks_))
        return data

    @abstractmethod
    def _blocks(self, y: Tensor) -> Tensor:
        r"""The block of each node, from 0 on, ``[N]``."""

    def _tokens(self, generator: torch.Generator) -> Tensor:
        total = self.num_tokens_.cumsum(dim=1)[self.label_]  # [N, m]
        uniform = torch.rand(self.num_nodes_, 1, dtype=torch.float64, generator=generator)
        return (total <= uniform * total[:, -1:]).sum(dim=1)

    def _edges(self, generator: torch.Generator) -> Tensor:
        r"""Assigns the ends of each block to other blocks, and pairs them."""
        owner = torch.arange(self.num_nodes_).repeat_interleave(self.degree_)
        owner = owner[torch.randperm(owner.numel(), generator=generator)]
        owner = owner[
            self.block_[owner].sort(stable=True).indices
        ]  # block by block, in random order
        own = self.block_[owner]
        blocks = torch.arange(self.num_blocks_).repeat(self.num_blocks_)
        wish = blocks.repeat_interleave(self.num_edges_.view(-1))
        found = owner[:0]
        for _ in range(ROUNDS):
            order = torch.randperm(owner.numel(), generator=generator)
            owner, own, wish = owner[order], own[order], wish[order]
            a, b = _pair_blocks(own, wish, self.num_blocks_)
            low, high = torch.minimum(owner[a], owner[b]), torch.maximum(owner[a], owner[b])
            code, order = (low * self.num_nodes_ + high).sort(stable=True)
            new = (low != high)[order] & ~is_member(code, found)
            new[1:] &= code[1:] != code[:-1]
            found = torch.cat([found, code[new]]).sort().values
            left = torch.ones_like(owner, dtype=torch.bool)
            left[a[order][new]] = left[b[order][new]] = False
            owner, own, wish = owner[left], own[left], wish[left]
        edges = torch.stack([found // self.num_nodes_, found % self.num_nodes_])
        return to_undirected(edges, num_nodes=self.num_nodes_)


class ConfigurationModel(_BlockGraph):
    r"""A random graph with the degrees of the source. Edges do not depend on
    labels.
    """

    def _blocks(self, y: Tensor) -> Tensor:
        return torch.zeros_like(y)


class DegreeCorrectedSBM(_BlockGraph):
    r"""A random graph with the degrees of the source and its number of edges
    between each pair of labels: the microcanonical form of the degree-corrected
    stochastic block model `(Karrer and Newman, 2011)
    <https://arxiv.org/abs/1008.3926>`_.
    """

    def _blocks(self, y: Tensor) -> Tensor:
        return y - y.min() if y.numel() else y


def _pair_blocks(own: Tensor, wish: Tensor, num_blocks: int) -> tuple[Tensor, Tensor]:
    r"""Pairs ends of blocks that ask for each other, in a random order of ends."""
    up, down = (own < wish).nonzero().view(-1), (own > wish).nonzero().view(-1)
    inside = (own == wish).nonzero().view(-1)
    half = inside.numel() // 2
    a, b = torch.cat([up, inside[:half]]), torch.cat([down, inside[half:]])
    left, right = own[a] * num_blocks + wish[a], wish[b] * num_blocks + own[b]
    first, second = pair_equal(left, right)
    return a[first], b[second]


class _BlockTrees(GraphModel):
    r"""Computation graphs of a random graph that keeps the degree and the label of
    every node. The token of a node is drawn given its label.
    """

    kind: ClassVar[type[_BlockGraph]]

    def fit_graph(
        self, graph: TokenGraph, source: TreeSource, context: FitContext
    ) -> dict[str, Any]:
        data = Data(edge_index=graph.edge_index, y=graph.y, cluster=graph.token)
        data.num_nodes = graph.num_nodes
        data.codebook = torch.zeros(self.num_tokens, 1)  # tokens are wanted, not features
        self._fitted = self.kind().fit(data)
        return {'num_nodes': graph.num_nodes, 'num_edges': int(self._fitted.num_edges_.sum())}

    def generate(self, generator: torch.Generator) -> TokenGraph:
        seed = int(torch.randint(1 << 31, (1,), generator=generator))
        data = self._fitted.sample(seed)
        y: Tensor = data.y
        return TokenGraph(data.token, y, data.edge_index)


class ConfigurationTrees(_BlockTrees):
    r"""Computation graphs of a :class:`ConfigurationModel`: a random graph with the
    degrees of the source, whose edges do not depend on labels.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'ConfigurationModel'
    kind = ConfigurationModel


class DegreeCorrectedSBMTrees(_BlockTrees):
    r"""Computation graphs of a :class:`DegreeCorrectedSBM`: a random graph with the
    degrees of the source and its number of edges between each pair of labels.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'DegreeCorrectedSBM'
    kind = DegreeCorrectedSBM
