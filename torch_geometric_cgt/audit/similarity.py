r"""How similar generated trees are to source trees: exact copies, and distances."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.estimates import Estimate, area, proportion
from torch_geometric_cgt.audit.records import Records, cat_trees
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models.path_support import lookup
from torch_geometric_cgt.quantizer.kmeans_steps import squared_distance

QUANTILES = (0.01, 0.05, 0.5, 0.95)
BLOCK = 256  # trees at a time


@dataclass(frozen=True)
class Copies:
    r"""How many generated trees equal source trees, and how many would by chance.

    A copy is rare if fewer than :math:`k` source roots have that tree.

    Args:
        k (int): The number of source roots from which on a tree is common.
        copies (int): The number of generated trees that equal a source tree.
        rare (int): The number of those that equal a rare one.
        share (Estimate): The share of generated trees that are rare copies.
        expected (Estimate): The share of source roots whose tree equals a rare
            tree of another root. Independent draws from the same population
            would have this share of rare copies.
        has_rare_copy (list[int]): The generated trees that are rare copies.
    """

    k: int
    copies: int
    rare: int
    share: Estimate
    expected: Estimate
    has_rare_copy: list[int]

    def check(self) -> Check:
        r"""Above the limit if there are significantly more rare copies than by chance."""
        return Check(
            'Copies of source trees',
            verdict(False, self.share.low > self.expected.high),
            self.share.value,
            f'The share of generated trees that are copies of a rare source tree: at least one and '
            f'fewer than {self.k} source nodes have the same tree with the same label (the order '
            f'of siblings does not matter). By chance, it would be {self.expected.value:.2%}: this '
            f'share of source nodes has the rare tree of another source node. {self.copies:,} '
            f'generated trees equal some source tree, rare or common.',
            self.expected.high,
            'the share by chance, upper end of its confidence interval',
            self.share.low,
            self.share.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def count_copies(trees: TokenTrees, source: Records, k: int, confidence: float = 0.95) -> Copies:
    r"""Counts generated trees that equal source trees, up to the order of siblings.

    Args:
        trees (TokenTrees): The generated trees.
        source (Records): The records of the source roots.
        k (int): The number of source roots from which on a tree is common.
        confidence (float, optional): The probability that an interval covers
            its share. (default: :obj:`0.95`)
    """
    num_draws, num_roots = len(source.draws), len(source)
    tree = tree_ids(cat_trees([trees, *source.draws]))
    generated, of_root = tree[: len(trees)], tree[len(trees) :].view(num_draws, num_roots)
    pair = (of_root * num_roots + torch.arange(num_roots)).unique()
    held, roots = (pair // num_roots).unique(return_counts=True)

    def count_roots(ids: Tensor) -> Tensor:
        place = lookup(held, ids)
        return roots[place.clamp(min=0)].masked_fill(place < 0, 0)

    found, others = count_roots(generated), count_roots(of_root[0]) - 1
    rare = (found > 0) & (found < k)
    return Copies(
        k,
        int((found > 0).sum()),
        int(rare.sum()),
        proportion(int(rare.sum()), len(trees), confidence),
        proportion(int(((others > 0) & (others < k)).sum()), num_roots, confidence),
        rare.nonzero().view(-1).tolist(),
    )


def tree_ids(trees: TokenTrees) -> Tensor:
    r"""A number for each tree, ``[n]``, the same for trees with the same label
    that differ only by the order of siblings.

    From the leaves up, every slot gets a number for its subtree, which depends
    on its own token and the sorted numbers of its children.

    Args:
        trees (TokenTrees): The trees.
    """
    below: Tensor | None = None
    for layer in reversed(range(trees.shape.depth + 1)):
        own = trees.tokens[:, trees.shape.layer_slice(layer)]
        key = own.long()
        if below is not None:
            children = below.unflatten(1, (own.size(1), -1)).sort(dim=2).values
            for child in children.unbind(dim=2):
                key = key.unique(return_inverse=True)[1]
                key = key * (int(below.max()) + 1) + child
        below = key.unique(return_inverse=True)[1]
    assert below is not None
    return (trees.y.long() * (int(below.max()) + 1) + below[:, 0]).unique(return_inverse=True)[1]


@dataclass(frozen=True)
class ClosestDistances:
    r"""The distances of trees to the closest source tree of the same label. They
    have no verdict, because distances do not measure privacy.

    Args:
        generated (dict[str, float]): Quantiles over generated trees.
        source (dict[str, float]): Quantiles over source trees, to the closest
            tree of another root.
        closer (float): How often a generated tree is closer than a source tree,
            where ties count one half.
    """

    generated: dict[str, float]
    source: dict[str, float]
    closer: float

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def closest_distances(
    trees: TokenTrees,
    source: Records,
    codebook: Tensor,
    max_trees: int = 2000,
    seed: int = 0,
) -> ClosestDistances:
    r"""Compares trees by what a GNN sees: the codeword of the root, and the mean
    codeword of each further layer.

    Args:
        trees (TokenTrees): The generated trees.
        source (Records): The records of the source roots.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
        max_trees (int, optional): The largest number of generated trees, and
            half the largest number of source trees, to compare.
            (default: :obj:`2000`)
        seed (int, optional): The seed of their choice. (default: :obj:`0`)
    """
    rng = torch.Generator().manual_seed(seed)
    some = trees.select(torch.randperm(len(trees), generator=rng)[:max_trees])
    rest = source.draws[0].select(torch.randperm(len(source), generator=rng)[: 2 * max_trees])
    known, new = layer_means(rest, codebook), layer_means(some, codebook)
    generated = _nearest(new, some.y, known, rest.y, None)
    own = torch.arange(min(max_trees, len(rest)))
    among = _nearest(known[own], rest.y[own], known, rest.y, own)
    return ClosestDistances(_quantiles(generated), _quantiles(among), area(among, generated).value)


def layer_means(trees: TokenTrees, codebook: Tensor) -> Tensor:
    r"""The mean codeword of each layer of each tree, zero where the whole layer
    is null, concatenated, ``[n, (L + 1) * F]``.
    """
    words = torch.cat([codebook, codebook.new_zeros(1, codebook.size(1))]).float()
    means = []
    for layer in range(trees.shape.depth + 1):
        slots = trees.tokens[:, trees.shape.layer_slice(layer)].long()
        total = words.new_zeros(slots.size(0), words.size(1))
        for slot in slots.unbind(dim=1):  # one slot at a time, to save memory
            total += words[slot]
        real = (slots != codebook.size(0)).sum(dim=1, keepdim=True).clamp(min=1)
        means.append(total / real)
    return torch.cat(means, dim=1)


def _nearest(x: Tensor, y: Tensor, known: Tensor, labels: Tensor, own: Tensor | None) -> Tensor:
    r"""The distance of each row to the closest known row of its label, except
    its own one. Rows without such a row are dropped.
    """
    offset = known.mean(dim=0)
    found = []
    for rows in torch.arange(x.size(0)).split(BLOCK):
        square = squared_distance(x[rows] - offset, known - offset)
        square.masked_fill_(y[rows, None] != labels[None], torch.inf)
        if own is not None:
            square[torch.arange(rows.numel()), own[rows]] = torch.inf
        found.append(square.min(dim=1).values.sqrt())
    distance = torch.cat(found)
    return distance[torch.isfinite(distance)]


def _quantiles(x: Tensor) -> dict[str, float]:
    at = torch.tensor(QUANTILES, dtype=x.dtype)
    return dict(zip(map(str, QUANTILES), x.quantile(at).tolist(), strict=True))
