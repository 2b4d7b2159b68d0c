r"""What one tree adds to histograms: a row whose length is bounded, whatever the tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy.mechanisms import noisy_sums


@dataclass(frozen=True)
class TreeCounts:
    r"""Counts of many trees, each with a weight that makes no tree too long.

    A tree that fills several bins is a row of weighted counts. The weight is
    one over the root of the number of counts that a tree can have, so that
    counts in different bins make a row of length one at most. Where a tree
    fills one bin several times, its row can be longer: it is shortened to one.

    Args:
        tree (torch.Tensor): The tree of each count, ``[c]``.
        bin (torch.Tensor): The bin of each count, ``[c]``.
        num_trees (int): The number of trees.
        size (tuple[int, int]): The rows and columns of the histogram.
        most (int): The largest number of counts of a tree.
    """

    tree: Tensor
    bin: Tensor
    num_trees: int
    size: tuple[int, int]
    most: int

    def rows(self) -> Tensor:
        r"""One row per tree before it is shortened, ``[n, bins]``, sparse."""
        value = torch.full(self.bin.shape, 1 / math.sqrt(self.most), dtype=torch.double)
        size = (self.num_trees, math.prod(self.size))
        index = torch.stack([self.tree, self.bin])
        return torch.sparse_coo_tensor(index, value, size, check_invariants=True).coalesce()

    def noisy(self, sigma: float, generator: torch.Generator | None = None) -> Tensor:
        r"""The sum of all rows, each shortened to one, with Gaussian noise.

        Args:
            sigma (float): The standard deviation of the noise.
            generator (torch.Generator, optional): The source of random bits.
                (default: :obj:`None`)
        """
        everything = torch.zeros(self.num_trees, dtype=torch.long)
        return noisy_sums(self.rows(), everything, 1, 1.0, sigma, generator).view(self.size)


@dataclass(frozen=True)
class Layer:
    r"""One layer of some trees, as children of the one above.

    Args:
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        shape (TreeShape): The geometry of the trees.
        layer (int): The layer of the children, one or more.
        num_tokens (int): The number of tokens.
    """

    tokens: Tensor
    shape: TreeShape
    layer: int
    num_tokens: int

    @property
    def parents(self) -> Tensor:
        r"""The tokens of the parents, ``[n, P]``."""
        return self.tokens[:, self.shape.layer_slice(self.layer - 1)]

    @property
    def children(self) -> Tensor:
        r"""The tokens of their child slots, ``[n, P, f]``."""
        slots = self.tokens[:, self.shape.layer_slice(self.layer)]
        return slots.unflatten(1, (-1, self.shape.num_neighbors[self.layer - 1]))

    @property
    def number(self) -> Tensor:
        r"""The number of real children of each parent, ``[n, P]``."""
        return (self.children != self.num_tokens).sum(dim=2)

    @property
    def returns(self) -> Tensor:
        r"""The first child of each parent that has the token of the parent's
        own parent, as an edge walked back has, ``[n, P, f]``.
        """
        if self.layer == 1:
            return torch.zeros_like(self.children, dtype=torch.bool)
        above = self.tokens[:, self.shape.layer_slice(self.layer - 2)]
        above = above.repeat_interleave(self.shape.num_neighbors[self.layer - 2], dim=1)
        same = (self.children == above[:, :, None]) & (self.children != self.num_tokens)
        return same & (same.cumsum(dim=2) == 1)

    def count_numbers(self, group: Tensor, num_groups: int) -> TreeCounts:
        r"""How many children the real parents have, per group of trees.

        Args:
            group (torch.Tensor): The group of each tree, ``[n]``.
            num_groups (int): The number of groups.
        """
        tree, parent = (self.parents != self.num_tokens).nonzero().t()
        size = (num_groups, self.children.size(2) + 1)
        value = self.number[tree, parent]
        return self._count(tree, group[tree] * size[1] + value, size, self.parents.size(1))

    def count_tokens(self, group: Tensor, num_groups: int) -> TreeCounts:
        r"""The tokens of real children, but for returns, per group of trees.

        Args:
            group (torch.Tensor): The group of each tree, ``[n]``.
            num_groups (int): The number of groups.
        """
        new = (self.children != self.num_tokens) & ~self.returns
        tree, parent, slot = new.nonzero().t()
        token = self.children[tree, parent, slot]
        size = (num_groups, self.num_tokens)
        return self._count(tree, group[tree] * size[1] + token, size, new[0].numel())

    def count_returns(self) -> TreeCounts:
        r"""How many of the parents with one, two, ... real children have a
        return among them (second column) or not (first column).
        """
        tree, parent = (self.number > 0).nonzero().t()
        some = self.returns.any(dim=2)[tree, parent].long()
        size = (self.children.size(2), 2)
        value = (self.number[tree, parent] - 1) * 2 + some
        return self._count(tree, value, size, self.parents.size(1))

    def _count(self, tree: Tensor, bin: Tensor, size: tuple[int, int], most: int) -> TreeCounts:
        return TreeCounts(tree, bin, self.tokens.size(0), size, most)
