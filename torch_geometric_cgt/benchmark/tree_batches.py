r"""Computation graphs as batches for PyG's layers: nodes by depth, edges from child to parent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.data.token_trees import Rows, SparseRows
from torch_geometric_cgt.data.tree import build_forest
from torch_geometric_cgt.utils.rows import csr_matrix


class Edges:
    r"""Weighted edges from children to parents, sorted by parent. Parents are
    numbered by depth, so that the edges into nodes close to the roots come
    first.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        weight (torch.Tensor): Their weights, ``[E]``.
        num_nodes (tuple[int, ...]): The number of nodes of at most each depth.
    """

    def __init__(self, edge_index: Tensor, weight: Tensor, num_nodes: tuple[int, ...]) -> None:
        order = edge_index[1].argsort(stable=True)
        self.edge_index, self.weight, self.num_nodes = (
            edge_index[:, order],
            weight[order],
            num_nodes,
        )
        ends = torch.searchsorted(self.edge_index[1].contiguous(), torch.tensor(num_nodes))
        self.ends: list[int] = ends.tolist()
        self._adjacency: dict[tuple[int, int], Tensor] = {}

    def into(self, depth: int) -> tuple[Tensor, Tensor]:
        r"""The edges into parents of at most this depth, and their weights."""
        end = self.ends[depth]
        return self.edge_index[:, :end], self.weight[:end]

    def adjacency(self, depth: int, num_children: int) -> Tensor:
        r"""The transposed adjacency matrix of :meth:`into` as a sparse matrix,
        ``[parents, children]``.

        Args:
            depth (int): The largest depth of a parent.
            num_children (int): The number of nodes that may be children.
        """
        key = depth, num_children
        if key not in self._adjacency:
            (child, parent), weight = self.into(depth)
            size = (self.num_nodes[depth], num_children)
            counts = torch.bincount(parent, minlength=size[0])
            ptr = F.pad(counts.cumsum(0), (1, 0))
            self._adjacency[key] = csr_matrix(ptr, child, weight, torch.Size(size))
        return self._adjacency[key]


@dataclass(frozen=True)
class Table:
    r"""Feature vectors, and their transposed matrix if they are sparse."""

    rows: Rows

    @cached_property
    def transposed(self) -> SparseRows:
        r"""The transposed matrix of sparse rows."""
        x = self.rows
        if isinstance(x, Tensor):
            raise ValueError('The table of features is dense')
        row = torch.arange(x.size(0)).repeat_interleave(x.ptr.diff())
        order = x.column.argsort(stable=True)
        counts = torch.bincount(x.column, minlength=x.num_columns)
        ptr = F.pad(counts.cumsum(0), (1, 0))
        return SparseRows(row[order], x.value[order], ptr, x.size(0))

    @cached_property
    def dense(self) -> Tensor:
        r"""The table as a dense matrix, ``[R, F]``."""
        x = self.rows
        if isinstance(x, Tensor):
            return x
        row = torch.arange(x.size(0)).repeat_interleave(x.ptr.diff())
        out = torch.zeros(x.size(0), x.num_columns)
        return out.index_put_((row, x.column), x.value, accumulate=True)


class TreeBatch:
    r"""Some computation graphs as one graph.

    Every real slot is a node, also if a tree has several slots with the same
    token. Null slots are not nodes. Nodes are numbered by depth: the roots
    come first, in the order of the trees.

    Args:
        trees (TokenTrees): The trees, with features.
        rows (torch.Tensor): Which of them, ``[B]``.
    """

    def __init__(self, trees: TokenTrees, rows: Tensor) -> None:
        forest = build_forest(trees.real[rows], trees.shape)
        order = forest.depth.argsort(stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(order.numel())
        self.y = trees.y[rows]  # [B]
        self.depth = forest.depth[order]  # [N]
        self.max_depth = trees.shape.depth
        counts = torch.bincount(self.depth, minlength=self.max_depth + 1)
        self.num_nodes: tuple[int, ...] = tuple(counts.cumsum(0).tolist())  # of at most each depth
        edge_index = number[forest.edge_index]
        num_children = torch.bincount(edge_index[1], minlength=order.numel())
        self.edges = Edges(edge_index, 1 / num_children[edge_index[1]], self.num_nodes)

        # Tokens are numbered by the least depth that they occur at: the table of a few layers is
        # the beginning of the whole table.
        token = trees.tokens[rows].reshape(-1)[forest.slot[order]].long()
        least = torch.full((trees.num_tokens,), self.max_depth + 1)
        least.scatter_reduce_(0, token, self.depth, 'amin')
        used = least.argsort(stable=True)
        self._num_rows: list[int] = (
            torch.bincount(least, minlength=self.max_depth + 2).cumsum(0)[:-1].tolist()
        )
        local = torch.empty_like(used)
        local[used] = torch.arange(used.numel())
        self.token = local[token]  # [N] the row of each node in the table
        self._x = trees.features
        self._used = used
        self._tables: dict[int, Table] = {}

    def nodes_to(self, depth: int) -> int:
        r"""The number of nodes of at most this depth."""
        return self.num_nodes[max(0, min(depth, self.max_depth))]

    def table(self, depth: int) -> Table:
        r"""The features of the tokens of all nodes of at most this depth."""
        depth = min(depth, self.max_depth)
        if depth not in self._tables:
            self._tables[depth] = Table(self._x[self._used[: self._num_rows[depth]]])
        return self._tables[depth]

    @cached_property
    def gcn_edges(self) -> Edges:
        r"""The edges and self-loops with the weights of
        :class:`~torch_geometric.nn.GCNConv` on the whole graph.
        """
        edge_index, weight = gcn_norm(self.edges.edge_index, None, self.token.numel())
        return Edges(edge_index, weight, self.num_nodes)
