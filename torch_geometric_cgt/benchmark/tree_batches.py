r"""Computation graphs as batches for PyG's layers: nodes by depth, edges from child to parent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from torch_geometric_cgt.benchmark.gnn_training import batch_of
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.token_trees import Rows, SparseRows
from torch_geometric_cgt.data.tree import build_forest


@dataclass(frozen=True)
class Edges:
    r"""Edges from children to parents, sorted by the depth of the parent."""

    edge_index: Tensor  # [2, E] child -> parent
    weight: Tensor  # [E]
    ends: tuple[int, ...]  # the number of edges into parents of at most each depth

    @classmethod
    def of(cls, edge_index: Tensor, weight: Tensor, depth: Tensor, max_depth: int) -> Edges:
        r"""Sorts edges.

        Args:
            edge_index (torch.Tensor): The edges, ``[2, E]``.
            weight (torch.Tensor): Their weights, ``[E]``.
            depth (torch.Tensor): The depth of each node, ``[N]``.
            max_depth (int): The depth of the trees.
        """
        order = edge_index[1].argsort(stable=True)  # parents are numbered by depth
        counts = torch.bincount(depth[edge_index[1]], minlength=max_depth + 1)
        return cls(edge_index[:, order], weight[order], tuple(counts.cumsum(0).tolist()))

    def into(self, depth: int) -> tuple[Tensor, Tensor]:
        r"""The edges into parents of at most this depth, and their weights."""
        end = self.ends[depth]
        return self.edge_index[:, :end], self.weight[:end]


@dataclass(frozen=True)
class TreeBatch:
    r"""Some computation graphs as one graph.

    Every real slot is a node, also if a tree has several slots with the same
    token. Null slots are not nodes. Nodes are numbered by depth, so that the
    roots come first and a layer that needs nodes close to the roots only is a
    layer on the first nodes.
    """

    x: Rows  # [R, F] the features of the tokens that occur
    token: Tensor  # [N] the row in x of each node
    depth: Tensor  # [N]
    num_nodes: tuple[int, ...]  # the number of nodes of at most each depth
    edges: Edges  # weights: means over the children of a parent
    y: Tensor  # [B] the label of each root

    @classmethod
    def of(cls, trees: TokenTrees, rows: Tensor) -> TreeBatch:
        r"""Makes a batch.

        Args:
            trees (TokenTrees): The trees, with features.
            rows (torch.Tensor): Which of them, ``[B]``.
        """
        shape: TreeShape = trees.shape
        forest = build_forest(trees.real[rows], shape)
        order = forest.depth.argsort(stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(order.numel())
        x, local = batch_of(trees, rows)
        depth = forest.depth[order]
        edge_index = number[forest.edge_index]
        num_children = torch.bincount(edge_index[1], minlength=depth.numel())
        weight = 1 / num_children[edge_index[1]]
        counts = torch.bincount(depth, minlength=shape.depth + 1)
        return cls(
            x,
            local.reshape(-1)[forest.slot[order]],
            depth,
            tuple(counts.cumsum(0).tolist()),
            Edges.of(edge_index, weight, depth, shape.depth),
            trees.y[rows],
        )

    @property
    def max_depth(self) -> int:
        r"""The depth of the trees."""
        return len(self.num_nodes) - 1

    def nodes_to(self, depth: int) -> int:
        r"""The number of nodes of at most this depth."""
        return self.num_nodes[max(0, min(depth, self.max_depth))]

    @cached_property
    def gcn_edges(self) -> Edges:
        r"""The edges and self-loops with the weights of
        :class:`~torch_geometric.nn.GCNConv` on the whole graph.
        """
        edge_index, weight = gcn_norm(self.edges.edge_index, None, self.token.numel())
        return Edges.of(edge_index, weight, self.depth, self.max_depth)

    @cached_property
    def transposed(self) -> SparseRows:
        r"""The transposed table of features, if the table is sparse."""
        if isinstance(self.x, Tensor):
            raise ValueError('The table of features is dense')
        row = torch.arange(self.x.size(0)).repeat_interleave(self.x.ptr.diff())
        order = self.x.column.argsort(stable=True)
        counts = torch.bincount(self.x.column, minlength=self.x.num_columns)
        ptr = F.pad(counts.cumsum(0), (1, 0))
        return SparseRows(row[order], self.x.value[order], ptr, self.x.size(0))

    @cached_property
    def dense(self) -> Tensor:
        r"""The features of the tokens that occur as a dense matrix, ``[R, F]``."""
        if isinstance(self.x, Tensor):
            return self.x
        out = torch.zeros(self.x.size(0), self.x.num_columns)
        row = torch.arange(self.x.size(0)).repeat_interleave(self.x.ptr.diff())
        return out.index_put_((row, self.x.column), self.x.value, accumulate=True)
