r"""A private tree model: noisy histograms of tokens and numbers of children, with back-off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models.noisy_tables import back_off, couple, couple_again, token_rows
from torch_geometric_cgt.models.scenes import ROOTS, SCENES, count_pairs, draw_columns
from torch_geometric_cgt.models.tree_model import PER_TREE, STAGE, FitContext, PrivateTreeModel
from torch_geometric_cgt.privacy import Entry, Gaussian, Queries

SCENE_ROOTS = 'root tokens per scene'
UNFOLD_ROUNDS = 3
# Shares of the budget. The shares of numbers, tokens and returns are divided among the layers.
SHARES = {
    'roots': 0.3,
    'scenes': 0.1,
    'scene_roots': 0.1,
    'numbers': 0.1,
    'tokens': 0.35,
    'returns': 0.05,
}


class PrivateHistograms(PrivateTreeModel):
    r"""A model that samples token trees from noisy histograms.

    A tree with a given label is sampled in three steps:

    1. The scene of the tree is drawn given its label. The scene is the label
       that the tokens of the tree indicate together. It can differ from the
       label of the tree.
    2. The token of the root is drawn given label and scene.
    3. For each slot, the number of its children and their tokens are drawn
       given the scene. One child may be a return: it has the token of the
       grandparent, as if the walk went back along the same edge.

    Each of these distributions is a histogram over trees. One tree adds a row
    with a norm of at most one to each histogram (:class:`TreeCounts`), and
    Gaussian noise is added to the sums. All other steps are arithmetic on noisy
    sums:

    * The noisy histogram of root tokens gives the label that a token indicates,
      and with it the scene of a tree.
    * Distributions back off to distributions of lower order in proportion to
      their noise (:meth:`back_off`).
    * The distribution of scenes is corrected (:meth:`unfold`) so that the tokens
      of sampled trees indicate their label as often as in the source.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels, which equals the number of
            scenes.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'histograms'

    root_of_label: Tensor  # [C, m] factor of the label in p(root token | label, scene)
    root_of_scene: Tensor  # [S, m] factor of the scene

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        entries = plan_histograms(len(num_neighbors))
        super().__init__(num_tokens, num_classes, num_neighbors, entries)
        sizes: dict[str, tuple[int, ...]] = {
            'root_of_label': (num_classes, num_tokens),
            'root_of_scene': (num_classes, num_tokens),
        }
        for layer, fan_out in enumerate(self.shape.num_neighbors, start=1):
            sizes[f'number_{layer}'] = (num_classes, fan_out + 1)
            sizes[f'token_{layer}'] = (num_classes, num_tokens)
            sizes[f'return_{layer}'] = (fan_out + 1,)
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.double))

    @torch.no_grad()
    def learn(
        self,
        trees: TokenTrees,
        queries: Queries,
        context: FitContext,
    ) -> None:
        r"""Computes the noisy histograms and the distributions of the model."""
        tokens, y = trees.tokens, trees.y
        size, scenes = (self.num_classes, self.num_tokens), self.scenes
        scene = scenes.fit(tokens, y, queries)  # not private

        joint = scenes.seen * scenes.label[:, None]
        noisy = count_pairs(SCENE_ROOTS, scene, tokens[:, 0], size, queries)
        weight = joint.sum(dim=0)
        label_root = scenes.root * scenes.label[:, None]
        prior = scenes.seen.t() @ label_root / weight.clamp(min=1e-9)[:, None]
        scene_root = back_off(noisy, queries.sigma(SCENE_ROOTS), prior) * weight[:, None]

        prior = scenes.root
        for depth in range(1, self.shape.depth + 1):
            layer = Layer(tokens, self.shape, depth, self.num_tokens)
            prior = self._fit_layer(layer, scene, prior, queries)
        a, b = couple(joint, label_root, scene_root)
        self.root_of_label.copy_(a)
        self.root_of_scene.copy_(b)
        self.is_fitted.fill_(True)
        rng = torch.Generator().manual_seed(0)  # public: it samples from the private model
        for _ in range(UNFOLD_ROUNDS):
            scenes.unfold(lambda label, scene: self.sample(label, rng, scene))
            joint = scenes.scene * scenes.label[:, None]
            self.root_of_label.copy_(couple_again(joint, label_root, self.root_of_scene))

    def _fit_layer(
        self,
        layer: Layer,
        scene: Tensor,
        prior: Tensor,
        queries: Queries,
    ) -> Tensor:
        r"""Fits the distributions of the children in one layer. Returns that of their tokens."""
        depth, num_scenes = layer.layer, self.num_classes
        name = numbers(depth)
        noisy = layer.count_numbers(scene, num_scenes).noisy(name, queries)
        self.get_buffer(f'number_{depth}').copy_(back_off(noisy, queries.sigma(name)))
        name = tokens_of_layer(depth)
        noisy = layer.count_tokens(scene, num_scenes).noisy(name, queries)
        tokens = self.get_buffer(f'token_{depth}').copy_(
            back_off(noisy, queries.sigma(name), prior)
        )
        if depth > 1:
            name = returns(depth)
            noisy = layer.count_returns().noisy(name, queries)
            self.get_buffer(f'return_{depth}')[1:] = back_off(noisy, queries.sigma(name))[:, 1]
        return tokens

    def draw(self, y: Tensor, scene: Tensor, generator: torch.Generator | None) -> Tensor:
        root = torch.empty_like(y)
        for label in y.unique():
            has_label = y == label
            fallback = self.scenes.root[label]
            rows = token_rows(self.root_of_label[label], self.root_of_scene, fallback)
            root[has_label] = draw_columns(rows, scene[has_label], generator)
        layers = [root[:, None]]
        for depth in range(1, self.shape.depth + 1):
            layers.append(self._draw_layer(depth, layers, scene, generator))
        return torch.cat(layers, dim=1)

    def _draw_layer(
        self,
        depth: int,
        layers: list[Tensor],
        scene: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Draws the child slots of the last drawn layer, ``[B, P * f]``."""
        parents, fan_out = layers[-1], self.shape.num_neighbors[depth - 1]
        row = scene[:, None].expand_as(parents)
        number = draw_columns(self.get_buffer(f'number_{depth}'), row, generator)
        number = number.masked_fill(parents == self.num_tokens, 0)
        row = row[:, :, None].expand(-1, -1, fan_out)
        token = draw_columns(self.get_buffer(f'token_{depth}'), row, generator)  # [B, P, f]
        slot = torch.arange(fan_out, device=token.device)
        if depth > 1:
            chance, place = torch.rand(
                (2, *number.shape), dtype=torch.double, generator=generator, device=number.device
            )
            back = chance < self.get_buffer(f'return_{depth}')[number]
            place = (place * number).long().masked_fill(~back, -1)
            above = layers[-2].repeat_interleave(self.shape.num_neighbors[depth - 2], dim=1)
            token = torch.where(slot == place[:, :, None], above[:, :, None], token)
        return token.masked_fill(slot >= number[:, :, None], self.num_tokens).flatten(1)


def numbers(layer: int) -> str:
    r"""The entry name of the histogram of numbers of children."""
    return f'numbers of children per scene, layer {layer}'


def tokens_of_layer(layer: int) -> str:
    r"""The entry name of the histogram of tokens of children."""
    return f'tokens per scene, layer {layer}'


def returns(layer: int) -> str:
    r"""The entry name of the histogram of returns."""
    return f'returns per number of children, layer {layer}'


def plan_histograms(depth: int, noise: float = 1.0) -> list[Entry]:
    r"""One entry per histogram, each with its share of the budget and with noise
    that is not calibrated yet.

    The rows are computation graphs. Removing one row moves each histogram by a
    norm of at most 1. Rows are not negative, so replacing one row moves each
    histogram by at most the root of 2.

    Args:
        depth (int): The number of layers below the root.
        noise (float, optional): The width of the noise of all entries.
            (default: :obj:`1.0`)
    """

    def entry(name: str, key: str, parts: int = 1) -> Entry:
        return Entry(STAGE, name, PER_TREE, Gaussian(noise), share=SHARES[key] / parts)

    entries = [
        entry(ROOTS, 'roots'),
        entry(SCENES, 'scenes'),
        entry(SCENE_ROOTS, 'scene_roots'),
    ]
    for layer in range(1, depth + 1):
        entries.append(entry(numbers(layer), 'numbers', depth))
        entries.append(entry(tokens_of_layer(layer), 'tokens', depth))
        if layer > 1:
            entries.append(entry(returns(layer), 'returns', depth - 1))
    return entries


@dataclass(frozen=True)
class TreeCounts:
    r"""Weighted counts of trees, so that each tree adds a vector of bounded norm.

    The counts of a tree are a row of the histogram's bins. Each count has the
    weight one over the root of the largest number of counts of a tree, so that
    counts in different bins give a row with a norm of at most one. A tree with
    several counts in one bin can have a larger norm; its row is clipped to one.

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
        r"""One row per tree before clipping, ``[n, bins]``, sparse."""
        value = torch.full(self.bin.shape, 1 / math.sqrt(self.most), dtype=torch.double)
        size = (self.num_trees, math.prod(self.size))
        index = torch.stack([self.tree, self.bin])
        return torch.sparse_coo_tensor(index, value, size, check_invariants=True).coalesce()

    def noisy(self, name: str, queries: Queries) -> Tensor:
        r"""The sum of all rows, each clipped to norm one, with Gaussian noise.

        Args:
            name (str): The name of the ledger entry.
            queries (Queries): Answers with the noise of the ledger.
        """
        one_bin = torch.zeros(self.num_trees, dtype=torch.long)
        return queries.sums(name, self.rows(), one_bin, 1).view(self.size)


@dataclass(frozen=True)
class Layer:
    r"""One layer of token trees, as children of the layer above.

    Args:
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        shape (TreeShape): The geometry of the trees.
        layer (int): The layer of the children, at least one.
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
        r"""The tokens of the child slots of each parent, ``[n, P, f]``."""
        slots = self.tokens[:, self.shape.layer_slice(self.layer)]
        return slots.unflatten(1, (-1, self.shape.num_neighbors[self.layer - 1]))

    @property
    def number(self) -> Tensor:
        r"""The number of children of each parent without null slots, ``[n, P]``."""
        return (self.children != self.num_tokens).sum(dim=2)

    @property
    def returns(self) -> Tensor:
        r"""Whether a child is a return: the first child of its parent that has
        the token of its grandparent, ``[n, P, f]``.
        """
        if self.layer == 1:
            return torch.zeros_like(self.children, dtype=torch.bool)
        above = self.tokens[:, self.shape.layer_slice(self.layer - 2)]
        above = above.repeat_interleave(self.shape.num_neighbors[self.layer - 2], dim=1)
        same = (self.children == above[:, :, None]) & (self.children != self.num_tokens)
        return same & (same.cumsum(dim=2) == 1)

    def count_numbers(self, scene: Tensor, num_scenes: int) -> TreeCounts:
        r"""Counts the numbers of children of the non-null parents, per scene.

        Args:
            scene (torch.Tensor): The scene of each tree, ``[n]``.
            num_scenes (int): The number of scenes.
        """
        tree, parent = (self.parents != self.num_tokens).nonzero().t()
        size = (num_scenes, self.children.size(2) + 1)
        value = self.number[tree, parent]
        return self._count(tree, scene[tree] * size[1] + value, size, self.parents.size(1))

    def count_tokens(self, scene: Tensor, num_scenes: int) -> TreeCounts:
        r"""Counts the tokens of the children that are not returns, per scene.

        Args:
            scene (torch.Tensor): The scene of each tree, ``[n]``.
            num_scenes (int): The number of scenes.
        """
        new = (self.children != self.num_tokens) & ~self.returns
        tree, parent, slot = new.nonzero().t()
        token = self.children[tree, parent, slot]
        size = (num_scenes, self.num_tokens)
        return self._count(tree, scene[tree] * size[1] + token, size, new[0].numel())

    def count_returns(self) -> TreeCounts:
        r"""Counts the parents without a return (first column) and with one
        (second column), per number of children (rows: one, two, ...).
        """
        tree, parent = (self.number > 0).nonzero().t()
        has_return = self.returns.any(dim=2)[tree, parent].long()
        size = (self.children.size(2), 2)
        value = (self.number[tree, parent] - 1) * 2 + has_return
        return self._count(tree, value, size, self.parents.size(1))

    def _count(self, tree: Tensor, bin: Tensor, size: tuple[int, int], most: int) -> TreeCounts:
        return TreeCounts(tree, bin, self.tokens.size(0), size, most)
