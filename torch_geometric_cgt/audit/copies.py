r"""Copies: generated trees that are trees of the source, label and all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models.path_support import lookup
from torch_geometric_cgt.privacy.intervals import Estimate, proportion


@dataclass(frozen=True)
class Copies:
    r"""How many generated trees are source trees, and how many would be by chance.

    A copy is rare if fewer than :math:`k` source roots have that tree.

    Args:
        k (int): The number of roots from which on a tree is common.
        copies (int): Generated trees that equal a source tree.
        rare (int): Those that equal a rare one.
        share (Estimate): The share of generated trees that are rare copies.
        expected (Estimate): The share that it would be for independent draws
            from the population: of the trees of each source root, those that
            equal a rare tree of another root.
        has_rare_copy (list[int]): The generated trees that are rare copies.
    """

    k: int
    copies: int
    rare: int
    share: Estimate
    expected: Estimate
    has_rare_copy: list[int]

    def check(self) -> Check:
        r"""Fails if there are clearly more copies than chance makes."""
        return Check(
            'Copies of source trees',
            verdict(self.share.low <= self.expected.high),
            self.share.value,
            f'The share of generated trees that equal, up to the order of siblings, the tree of '
            f'at least one and fewer than {self.k} source roots with the same label. Independent '
            f'draws from the same population would have {self.expected.value:.2%}. Of all '
            f'generated trees, {self.copies:,} equal some source tree.',
            self.expected.high,
            'how often source roots have a tree of so few others, upper end of its interval',
            self.share.low,
            self.share.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return asdict(self)


def count_copies(trees: TokenTrees, source: Records, k: int, confidence: float = 0.95) -> Copies:
    r"""Compares whole trees, up to the order of siblings.

    Args:
        trees (TokenTrees): The generated trees.
        source (Records): The records of the source roots.
        k (int): The number of roots from which on a tree is common.
        confidence (float, optional): The probability that an interval holds.
            (default: :obj:`0.95`)
    """
    num_draws, num_roots, _ = source.tokens.shape
    parts = [trees.tokens.long(), *source.tokens.long()]
    labels = torch.cat([trees.y.long(), source.y.long().repeat(num_draws)])
    tree = tree_ids(torch.cat(parts), labels, trees.shape)
    generated, of_root = tree[: len(trees)], tree[len(trees) :].view(num_draws, num_roots)
    pair = (of_root * num_roots + torch.arange(num_roots)).unique()
    held, roots = (pair // num_roots).unique(return_counts=True)

    def holders(ids: Tensor) -> Tensor:
        place = lookup(held, ids)
        return roots[place.clamp(min=0)].masked_fill(place < 0, 0)

    found, others = holders(generated), holders(of_root[0]) - 1
    rare = (found > 0) & (found < k)
    return Copies(
        k,
        int((found > 0).sum()),
        int(rare.sum()),
        proportion(int(rare.sum()), len(trees), confidence),
        proportion(int(((others > 0) & (others < k)).sum()), num_roots, confidence),
        rare.nonzero().view(-1).tolist(),
    )


def tree_ids(tokens: Tensor, y: Tensor, shape: TreeShape) -> Tensor:
    r"""A number for each tree, ``[n]``, the same for trees with the same label
    that differ by the order of siblings alone.

    From the leaves up, every slot gets the number of its subtree: of its own
    token and the sorted numbers of its children.

    Args:
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        y (torch.Tensor): The label of each root, ``[n]``.
        shape (TreeShape): The geometry of the trees.
    """
    below: Tensor | None = None
    for layer in reversed(range(shape.depth + 1)):
        own = tokens[:, shape.layer_slice(layer)]
        key = own.long()
        if below is not None:
            children = below.unflatten(1, (own.size(1), -1)).sort(dim=2).values
            for child in children.unbind(dim=2):
                key = key.unique(return_inverse=True)[1]
                key = key * (int(below.max()) + 1) + child
        below = key.unique(return_inverse=True)[1]
    assert below is not None
    return (y.long() * (int(below.max()) + 1) + below[:, 0]).unique(return_inverse=True)[1]
