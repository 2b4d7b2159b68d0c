r"""Paths of token trees, and how many source roots show each of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape


@dataclass(frozen=True)
class PathIndex:
    r"""The distinct (label, path from the root) of some token trees.

    A path of layer :math:`l` is a label with the tokens of :math:`l + 1` slots,
    root first. Its key is the number of the path to its parent and its own
    token, so that the paths below one parent follow each other.

    Args:
        keys (tuple[torch.Tensor, ...]): For each layer, the keys of its paths
            in ascending order.
        num_tokens (int): The number of tokens, which is also the null one.
        shape (TreeShape): The geometry of the trees.
    """

    keys: tuple[Tensor, ...]
    num_tokens: int
    shape: TreeShape

    @classmethod
    def of(cls, tokens: Tensor, y: Tensor, num_tokens: int, shape: TreeShape) -> PathIndex:
        r"""Finds the paths of some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each root, ``[n]``.
            num_tokens (int): The number of tokens, which is also the null one.
            shape (TreeShape): The geometry of the trees.
        """
        keys: list[Tensor] = []
        above = y.long()[:, None]
        for layer in range(shape.depth + 1):
            if layer > 0:
                above = above.repeat_interleave(shape.num_neighbors[layer - 1], dim=1)
            key = path_key(above, tokens[:, shape.layer_slice(layer)], num_tokens)
            keys.append(key[key >= 0].unique())
            above = lookup(keys[-1], key)
        return cls(tuple(keys), num_tokens, shape)

    def find(self, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The number of the path that leads to each slot, counted within its
        layer, ``[n, T]``; :obj:`-1` where the slot is null or the path is not
        among these.
        """
        found: list[Tensor] = []
        above = y.long()[:, None]
        for layer in range(self.shape.depth + 1):
            if layer > 0:
                above = above.repeat_interleave(self.shape.num_neighbors[layer - 1], dim=1)
            above = self.step(layer, above, tokens[:, self.shape.layer_slice(layer)])
            found.append(above)
        return torch.cat(found, dim=1)

    def step(self, layer: int, above: Tensor, token: Tensor) -> Tensor:
        r"""One token further: the paths of a layer below some paths of the
        layer before, or below labels in layer zero.
        """
        return lookup(self.keys[layer], path_key(above, token, self.num_tokens))

    def labels(self, layer: int) -> Tensor:
        r"""The label of each path of a layer."""
        parent = self.keys[layer].div(self.num_tokens + 1, rounding_mode='floor')
        return parent if layer == 0 else self.labels(layer - 1)[parent]

    def tokens(self, layer: int) -> Tensor:
        r"""The last token of each path of a layer."""
        return self.keys[layer] % (self.num_tokens + 1)


@dataclass(frozen=True)
class PathSupport:
    r"""How many distinct source roots show each (label, path).

    Args:
        index (PathIndex): The paths of the source.
        roots (tuple[torch.Tensor, ...]): For each layer, the number of roots
            of each path.
        num_roots (int): The number of source roots.
    """

    index: PathIndex
    roots: tuple[Tensor, ...]
    num_roots: int

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        y: Tensor,
        num_tokens: int,
        shape: TreeShape,
        root: Tensor | None = None,
    ) -> PathSupport:
        r"""Counts the roots of source trees.

        Args:
            tokens (torch.Tensor): Token trees of the source, ``[n, T]``; one
                root may have several.
            y (torch.Tensor): The label of each tree, ``[n]``.
            num_tokens (int): The number of tokens, which is also the null one.
            shape (TreeShape): The geometry of the trees.
            root (torch.Tensor, optional): The root of each tree, ``[n]``. By
                default, every tree has a root of its own.
                (default: :obj:`None`)
        """
        root = torch.arange(y.numel()) if root is None else root.unique(return_inverse=True)[1]
        num_roots = int(root.max()) + 1 if root.numel() else 0
        index = PathIndex.of(tokens, y, num_tokens, shape)
        found, roots = index.find(tokens, y), []
        for layer, keys in enumerate(index.keys):
            path = found[:, shape.layer_slice(layer)]
            pair = path * num_roots + root[:, None]
            pair = pair[path >= 0].unique()
            roots.append(torch.bincount(pair // max(1, num_roots), minlength=keys.numel()))
        return cls(index, tuple(roots), num_roots)

    def count(self, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The number of roots that show the path to each slot, ``[n, T]``; zero
        where nobody does, and in null slots.
        """
        found = self.index.find(tokens, y)
        counts = torch.zeros_like(found)
        for layer, roots in enumerate(self.roots):
            if roots.numel():
                slots = self.index.shape.layer_slice(layer)
                path = found[:, slots]
                counts[:, slots] = roots[path.clamp(min=0)].masked_fill(path < 0, 0)
        return counts


def path_key(above: Tensor, token: Tensor, num_tokens: int) -> Tensor:
    r"""The key of a path: what is above it, and its last token; negative where
    that is null or lies below nothing.
    """
    key = above * (num_tokens + 1) + token.long()
    return key.masked_fill((above < 0) | (token == num_tokens), -1)


def lookup(keys: Tensor, key: Tensor) -> Tensor:
    r"""The place of each key among ascending keys, :obj:`-1` where it is not there."""
    if keys.numel() == 0:
        return torch.full_like(key, -1)
    place = torch.searchsorted(keys, key.contiguous()).clamp_(max=keys.numel() - 1)
    return torch.where(keys[place] == key, place, -1)
