r"""The forest by arithmetic: nodes and edges that exist when a batch asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data.token_trees import TokenTrees

COUNT_BLOCK = 1 << 16  # trees that are looked at together


@dataclass(frozen=True)
class LazyForest:
    r"""The nodes and edges of :meth:`TokenTrees.forest`, of which nothing is
    held but one number per tree.

    Nodes are numbered tree by tree and breadth-first inside a tree, so that the
    children of a node have consecutive numbers.

    Args:
        trees (TokenTrees): The trees; their tokens may be mapped from a file.
        ptr (torch.Tensor): The first node of each tree, and behind them all
            the number of nodes, ``[n + 1]``.
    """

    trees: TokenTrees
    ptr: Tensor

    @classmethod
    def of(cls, trees: TokenTrees) -> LazyForest:
        r"""Counts the nodes of each tree."""
        counts = [part.real.sum(dim=1) for part in trees.blocks(COUNT_BLOCK)]
        ptr = torch.zeros(len(trees) + 1, dtype=torch.long)
        torch.cumsum(torch.cat([torch.zeros(0, dtype=torch.long), *counts]), 0, out=ptr[1:])
        return cls(trees, ptr)

    @property
    def num_nodes(self) -> int:
        return int(self.ptr[-1])

    @property
    def root(self) -> Tensor:
        r"""The root of each tree, ``[n]``."""
        return self.ptr[:-1]

    def tree_of(self, node: Tensor) -> Tensor:
        r"""The tree of each node."""
        return torch.searchsorted(self.ptr, node, right=True) - 1

    def token_of(self, node: Tensor) -> Tensor:
        r"""The token of each node."""
        tree = self.tree_of(node)
        rows = self.trees.tokens[tree]
        slot = self._slot(rows, node - self.ptr[tree])
        return rows.gather(1, slot[:, None])[:, 0].long()

    def children(self, node: Tensor) -> tuple[Tensor, Tensor]:
        r"""The first child of each node and the number of its children."""
        shape, tree = self.trees.shape, self.tree_of(node)
        rows = self.trees.tokens[tree]
        slot = self._slot(rows, node - self.ptr[tree])
        before = torch.cat(  # the number of real slots before each slot
            [torch.zeros_like(slot)[:, None], (rows != self.trees.num_tokens).cumsum(dim=1)], dim=1
        )
        begin, end = (bound[slot][:, None] for bound in shape.children)
        first = before.gather(1, begin)[:, 0]
        return self.ptr[tree] + first, before.gather(1, end)[:, 0] - first

    def edge_of(self, node: Tensor) -> Tensor:
        r"""The edge from each node to its parent: every tree has one node
        more than it has edges. Roots have none.
        """
        return node - self.tree_of(node) - 1

    def _slot(self, rows: Tensor, rank: Tensor) -> Tensor:
        r"""The slot of the node of some rank in each of some trees."""
        seen = (rows != self.trees.num_tokens).cumsum(dim=1)
        return (seen <= rank[:, None]).sum(dim=1)
