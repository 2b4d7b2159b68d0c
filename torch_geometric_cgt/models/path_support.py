r"""The support rule: trees show only paths that enough source roots show."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape

NUM_DRAWS = 5  # computation graphs of each source root in which paths are looked for


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


class SupportRule:
    r"""Redraws the slots of token trees whose (label, path from the root) is
    shown by too few source roots.

    Trees are walked from the root down. A slot with enough support stays as it
    is. Any other is drawn anew among the tokens with which its path has
    enough, with the weight that they have in the source below the same
    (label, parent token), at the root below the label; where there is no such
    token, the slot and all below it become null. Afterwards, every (label,
    path) of every tree is shown by at least :obj:`min_support` source roots.

    This is anonymity of paths, not differential privacy: which paths have
    enough support is read off the source as it is.

    Args:
        tokens (torch.Tensor): Token trees of the source, ``[m, T]``.
        y (torch.Tensor): The label of each source tree, ``[m]``.
        min_support (int): The number of source roots that must show a path.
        num_tokens (int): The number of tokens, which is also the null one.
        shape (TreeShape): The geometry of the trees.
        root (torch.Tensor, optional): The root of each source tree, ``[m]``,
            where roots have several trees. By default, every tree has a root
            of its own. (default: :obj:`None`)
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
        r"""Trees that keep the rule, ``[n, T]``, of the type of :obj:`tokens`.

        Args:
            tokens (torch.Tensor): Generated token trees, ``[n, T]``.
            y (torch.Tensor): The label of each of them, ``[n]``, among those
                of the source.
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
            wanted = (slots != num_tokens) & (above >= 0)
            redraw = wanted & ~_at(self.enough[layer], path)
            path[redraw] = self._draw(layer, above[redraw], rng)
            token = torch.where(path >= 0, _take(index.tokens(layer), path), num_tokens)
            out[:, shape.layer_slice(layer)] = token.to(out.dtype)
            above = path
        return out

    def _draw(self, layer: int, above: Tensor, rng: torch.Generator) -> Tensor:
        r"""Draws one path with enough support below each path of the layer
        before, :obj:`-1` where there is none. Paths below one parent follow
        each other.
        """
        allowed = self.enough[layer].nonzero().view(-1)
        step = self.support.index.num_tokens + 1
        keys = self.support.index.keys[layer][allowed]
        first, last = (torch.searchsorted(keys, x) for x in (above * step, (above + 1) * step))
        weight = self.weights[layer][allowed]
        total = torch.cat([weight.new_zeros(1), weight.cumsum(dim=0)])
        uniform = torch.rand(above.numel(), dtype=torch.double, generator=rng)
        at = total[first] + uniform * (total[last] - total[first])
        chosen = torch.searchsorted(total, at, right=True) - 1
        chosen = torch.minimum(torch.maximum(chosen, first), last - 1)  # rounding
        return torch.where(last > first, _take(allowed, chosen), -1)

    def _check_labels(self) -> None:
        r"""Every label must have a root to start from."""
        label, roots = self.support.index.labels(0), self.support.roots[0]
        best = torch.zeros(int(label.max()) + 1, dtype=torch.long)
        best = best.scatter_reduce(0, label, roots, 'amax')[label.unique()]
        missing = label.unique()[best < self.min_support].tolist()
        if missing:
            raise ValueError(
                f"'min_support' = {self.min_support} leaves the labels {missing} without a root, "
                f'as no cluster has so many nodes of them: use at most {int(best.min())}, or a '
                f'larger k'
            )


def check_min_support(min_support: int) -> None:
    r"""Raises an error unless it is a positive number."""
    if min_support < 1:
        raise ValueError(f"'min_support' must be at least 1 (got {min_support})")


def _sibling_weights(support: PathSupport, tokens: Tensor, y: Tensor) -> list[Tensor]:
    r"""For each layer, how often the last token of each path occurs in the
    source below its (label, parent token), in any layer; at the root, below
    its label.
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
    r"""The values at some places; any value where the place is negative."""
    if values.numel() == 0:
        return torch.zeros_like(place)
    return values[place.clamp(min=0)]


def _at(mask: Tensor, place: Tensor) -> Tensor:
    r"""Whether places are there and in the mask."""
    return (place >= 0) & _take(mask, place).bool()
