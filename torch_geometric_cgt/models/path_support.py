r"""The support rule: generated trees contain only paths of enough source roots."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape

NUM_DRAWS = 5  # computation graphs per source root that paths are counted in


@dataclass(frozen=True)
class PathIndex:
    r"""The distinct (label, path from the root) pairs of token trees.

    A path of layer :math:`l` is a label with the tokens of :math:`l + 1` slots,
    root first. Its key combines the number of its parent path and its last
    token, so that the paths below one parent are contiguous.

    Args:
        keys (tuple[torch.Tensor, ...]): For each layer, the keys of its paths
            in ascending order.
        num_tokens (int): The number of tokens, which is also the null token.
        shape (TreeShape): The geometry of the trees.
    """

    keys: tuple[Tensor, ...]
    num_tokens: int
    shape: TreeShape

    @classmethod
    def of(cls, tokens: Tensor, y: Tensor, num_tokens: int, shape: TreeShape) -> PathIndex:
        r"""Collects the paths of token trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each root, ``[n]``.
            num_tokens (int): The number of tokens, which is also the null token.
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
        r"""The number of the path to each slot within its layer, ``[n, T]``;
        :obj:`-1` if the slot is null or the path is not in the index.
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
        r"""Extends paths of the layer above by one token each. In layer zero,
        labels are extended.
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
    r"""The number of distinct source roots whose trees contain each (label, path).

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
            tokens (torch.Tensor): Token trees of the source, ``[n, T]``. A
                root may have several trees.
            y (torch.Tensor): The label of each tree, ``[n]``.
            num_tokens (int): The number of tokens, which is also the null token.
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
        r"""The number of source roots with the path to each slot, ``[n, T]``;
        zero for null slots and for paths that are not in the source.
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
    r"""The key of a path, from the number of its parent path and its last token;
    :obj:`-1` if the token is null or there is no parent path.
    """
    key = above * (num_tokens + 1) + token.long()
    return key.masked_fill((above < 0) | (token == num_tokens), -1)


def lookup(keys: Tensor, key: Tensor) -> Tensor:
    r"""The position of each key in a sorted list of keys; :obj:`-1` if it is not in the list."""
    if keys.numel() == 0:
        return torch.full_like(key, -1)
    place = torch.searchsorted(keys, key.contiguous()).clamp_(max=keys.numel() - 1)
    return torch.where(keys[place] == key, place, -1)


class SupportRule:
    r"""Replaces the slots of generated trees whose (label, path from the root)
    has too little support. The support of a path is the number of source roots
    whose trees contain it.

    Trees are processed from the root down. A slot whose path has enough support
    is kept. Otherwise, its token is drawn from the tokens that give the path
    enough support. The weight of a token is its frequency in the source below
    the same (label, parent token); for the root, below the same label. If no
    token gives enough support, the slot and all slots below it become null.
    In the result, every (label, path) has a support of at least
    :obj:`min_support`.

    This is anonymity of paths, not differential privacy: the support of a path
    is counted in the source without noise.

    Args:
        tokens (torch.Tensor): Token trees of the source, ``[m, T]``.
        y (torch.Tensor): The label of each source tree, ``[m]``.
        min_support (int): The minimum number of source roots of a path.
        num_tokens (int): The number of tokens, which is also the null token.
        shape (TreeShape): The geometry of the trees.
        root (torch.Tensor, optional): The root of each source tree, ``[m]``, if
            roots have several trees. By default, every tree has a root of its
            own. (default: :obj:`None`)
    """

    def __init__(
        self,
        tokens: Tensor,
        y: Tensor,
        min_support: int,
        num_tokens: int,
        shape: TreeShape,
        root: Tensor | None = None,
    ) -> None:
        check_min_support(min_support)
        self.min_support = min_support
        self.support = PathSupport.of(tokens, y, num_tokens, shape, root)
        self._check_labels()
        self.enough = [roots >= min_support for roots in self.support.roots]
        self.weights = _sibling_weights(self.support, tokens, y)

    def __call__(self, tokens: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        r"""Returns trees that satisfy the rule, ``[n, T]``, with the data type of
        :obj:`tokens`.

        Args:
            tokens (torch.Tensor): Generated token trees, ``[n, T]``.
            y (torch.Tensor): The label of each generated tree, ``[n]``. Each
                label must occur in the source.
            rng (torch.Generator): The source of randomness.
        """
        index = self.support.index
        num_tokens, shape = index.num_tokens, index.shape
        out = torch.full_like(tokens, num_tokens)
        above = y.long()[:, None]  # [n, P] the path above each slot of a layer
        for layer in range(shape.depth + 1):
            if layer > 0:
                above = above.repeat_interleave(shape.num_neighbors[layer - 1], dim=1)
            slots = tokens[:, shape.layer_slice(layer)].long()
            path = index.step(layer, above, slots)
            is_reachable = (slots != num_tokens) & (above >= 0)
            redraw = is_reachable & ~_is_marked(self.enough[layer], path)
            path[redraw] = self._draw(layer, above[redraw], rng)
            token = torch.where(path >= 0, _take(index.tokens(layer), path), num_tokens)
            out[:, shape.layer_slice(layer)] = token.to(out.dtype)
            above = path
        return out

    def _draw(self, layer: int, above: Tensor, rng: torch.Generator) -> Tensor:
        r"""Draws one path with enough support below each path of the layer
        above; :obj:`-1` if there is none.
        """
        allowed = self.enough[layer].nonzero().view(-1)
        step = self.support.index.num_tokens + 1
        keys = self.support.index.keys[layer][allowed]
        # The paths below one parent are contiguous.
        first, last = (torch.searchsorted(keys, x) for x in (above * step, (above + 1) * step))
        weight = self.weights[layer][allowed]
        total = torch.cat([weight.new_zeros(1), weight.cumsum(dim=0)])
        uniform = torch.rand(above.numel(), dtype=torch.double, generator=rng)
        point = total[first] + uniform * (total[last] - total[first])
        chosen = torch.searchsorted(total, point, right=True) - 1
        chosen = torch.minimum(torch.maximum(chosen, first), last - 1)  # against rounding errors
        return torch.where(last > first, _take(allowed, chosen), -1)

    def _check_labels(self) -> None:
        r"""Raises :class:`ValueError` if a label has no root token with enough support."""
        label, roots = self.support.index.labels(0), self.support.roots[0]
        best = torch.zeros(int(label.max()) + 1, dtype=torch.long)
        best = best.scatter_reduce(0, label, roots, 'amax')[label.unique()]
        missing = label.unique()[best < self.min_support].tolist()
        if missing:
            raise ValueError(
                f"'min_support' = {self.min_support} leaves the labels {missing} without a root, "
                f'because no cluster has that many nodes with these labels: use at most '
                f'{int(best.min())}, or a larger k'
            )


def check_min_support(min_support: int) -> None:
    r"""Raises a :class:`ValueError` unless :obj:`min_support` is at least one."""
    if min_support < 1:
        raise ValueError(f"'min_support' must be at least 1 (got {min_support})")


def _sibling_weights(support: PathSupport, tokens: Tensor, y: Tensor) -> list[Tensor]:
    r"""For each layer and path, how often the last token of the path occurs in
    the source below the same (label, parent token), in any layer. For the root,
    the number of source roots of the path.
    """
    index, step = support.index, support.index.num_tokens + 1
    parent = tokens[:, index.shape.parent[1:]].long()
    pair = (y.long()[:, None] * step + parent) * step + tokens[:, 1:].long()
    keys, counts = pair.unique(return_counts=True)
    weights = [support.roots[0].double()]
    for layer in range(1, index.shape.depth + 1):
        above = index.keys[layer].div(step, rounding_mode='floor')
        label, parent_token = index.labels(layer), index.tokens(layer - 1)[above]
        place = lookup(keys, (label * step + parent_token) * step + index.tokens(layer))
        weights.append(counts[place].double())
    return weights


def _take(values: Tensor, place: Tensor) -> Tensor:
    r"""The values at given positions; an arbitrary value if the position is negative."""
    if values.numel() == 0:
        return torch.zeros_like(place)
    return values[place.clamp(min=0)]


def _is_marked(mask: Tensor, place: Tensor) -> Tensor:
    r"""Whether a position is not negative and its value in the mask is true."""
    return (place >= 0) & _take(mask, place).bool()
