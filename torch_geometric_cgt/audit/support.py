r"""Path support: how many source roots show what a generated tree shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models.path_support import PathSupport

BINS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 1000)  # the lower ends


@dataclass(frozen=True)
class Support:
    r"""The support of the (label, path) of generated trees.

    Args:
        k (int): The support that is called enough.
        share_of_trees (float): The share of trees with enough support of all
            their paths.
        share_of_paths (list[float]): For each layer, the share of slots with
            enough support of their path.
        unseen (list[float]): For each layer, the share of slots whose path no
            source root shows.
        least (int): The smallest support of all.
        histogram (list[list[int]]): For each layer, the number of slots by
            the support of their path, in :obj:`bins`.
        bins (list[int]): The lower ends of the bins.
        num_roots (int): The number of source roots.
        num_draws (int): The number of trees of each.
    """

    k: int
    share_of_trees: float
    share_of_paths: list[float]
    unseen: list[float]
    least: int
    histogram: list[list[int]]
    bins: list[int]
    num_roots: int
    num_draws: int

    def check(self, min_support: int | None = None, origin: str = '') -> Check:
        r"""A verdict where a support is asked for, else a description.

        Args:
            min_support (int, optional): The support that every path must
                have. (default: :obj:`None`)
            origin (str, optional): Who asks for it; without a number, why
                there is none. (default: :obj:`""`)
        """
        says = (
            f'{self.share_of_trees:.1%} of generated trees show only paths (label, root, ..., '
            f'node) that at least {self.k} of {self.num_roots:,} source roots show in '
            f'{self.num_draws} draws of their computation graphs.'
        )
        if min_support is None:
            return Check('Support of paths', 'descriptive', self.share_of_trees, f'{says} {origin}')
        return Check(
            'Support of paths',
            verdict(self.least >= min_support),
            float(self.least),
            f'The smallest number of source roots that show a path of a generated tree. {says}',
            float(min_support),
            origin,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return asdict(self)


def path_support(trees: TokenTrees, source: Records, k: int) -> Support:
    r"""Counts, for every (label, path from the root) of generated trees, the
    distinct source roots that show it in any of their trees.

    Args:
        trees (TokenTrees): The generated trees.
        source (Records): The records of the source roots.
        k (int): The support that is called enough.
    """
    support = source_support(source)
    tokens, shape = trees.tokens.long(), trees.shape
    real = tokens != trees.num_tokens
    counts = support.count(tokens, trees.y.long())
    enough = (counts >= k) | ~real
    edges = torch.tensor(BINS)
    shares, unseen, histogram = [], [], []
    for layer in range(shape.depth + 1):
        slots = shape.layer_slice(layer)
        of_layer = counts[:, slots][real[:, slots]]
        shares.append(_share(of_layer >= k))
        unseen.append(_share(of_layer == 0))
        place = torch.searchsorted(edges, of_layer, right=True) - 1
        histogram.append(torch.bincount(place, minlength=len(BINS)).tolist())
    return Support(
        k,
        _share(enough.all(dim=1)),
        shares,
        unseen,
        int(counts[real].min()),
        histogram,
        list(BINS),
        len(source),
        source.tokens.size(0),
    )


def source_support(source: Records) -> PathSupport:
    r"""The support of the paths of a source, over all draws of its trees."""
    num_draws, num_roots, _ = source.tokens.shape
    return PathSupport.of(
        source.tokens.flatten(0, 1).long(),
        source.y.repeat(num_draws),
        source.num_tokens,
        source.shape,
        torch.arange(num_roots).repeat(num_draws),
    )


def _share(mask: Tensor) -> float:
    return float(mask.double().mean()) if mask.numel() else 0.0
