r"""Distance to the closest record: descriptive, and no measure of privacy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check
from torch_geometric_cgt.audit.rates import area
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.quantizer.centers import squared_distance

QUANTILES = (0.01, 0.05, 0.5, 0.95)
BLOCK = 256  # trees at a time


@dataclass(frozen=True)
class Closest:
    r"""How far trees are from the closest source tree of the same label.

    Args:
        generated (dict[str, float]): Quantiles over generated trees.
        source (dict[str, float]): Quantiles over source trees, to the closest
            tree of another root.
        closer (float): How often a generated tree is closer than a source tree
            is, ties counted as one half.
    """

    generated: dict[str, float]
    source: dict[str, float]
    closer: float

    def check(self) -> Check:
        r"""Never a verdict."""
        return Check(
            'Distance to the closest record',
            'descriptive',
            self.closer,
            'How often a generated tree is closer to a source tree with its label than a source '
            'tree is to the closest other one; 0.5 if generated trees are as close to the source '
            'as it is to itself. Distances do not measure privacy: releases that leak can keep '
            'them, and harmless copies of common trees make them zero. They are shown since they '
            'are often asked for.',
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return asdict(self)


def closest_records(
    trees: TokenTrees,
    source: Records,
    codebook: Tensor,
    max_trees: int = 2000,
    seed: int = 0,
) -> Closest:
    r"""Compares what a GNN would see: codewords of the root, and their means
    over each further layer.

    Args:
        trees (TokenTrees): The generated trees.
        source (Records): The records of the source roots.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
        max_trees (int, optional): The largest number of trees to look at, of
            each kind. (default: :obj:`2000`)
        seed (int, optional): The seed of which ones. (default: :obj:`0`)
    """
    rng = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(trees), generator=rng)[:max_trees]
    rest = torch.randperm(len(source), generator=rng)[: 2 * max_trees]
    known = layer_means(source.tokens[0, rest], codebook, source.shape)
    new = layer_means(trees.tokens[some].long(), codebook, trees.shape)
    generated = _nearest(new, trees.y[some], known, source.y[rest], None)
    own = torch.arange(min(max_trees, rest.numel()))
    among = _nearest(known[own], source.y[rest[own]], known, source.y[rest], own)
    return Closest(_quantiles(generated), _quantiles(among), area(among, generated).value)


def layer_means(tokens: Tensor, codebook: Tensor, shape: TreeShape) -> Tensor:
    r"""The mean codeword of each layer of each tree, zero where it is null, side
    by side, ``[n, (L + 1) * F]``.
    """
    words = torch.cat([codebook, codebook.new_zeros(1, codebook.size(1))]).float()
    means = []
    for layer in range(shape.depth + 1):
        slots = tokens[:, shape.layer_slice(layer)].long()
        total = words.new_zeros(slots.size(0), words.size(1))
        for slot in slots.unbind(dim=1):  # one by one: all at once would be large
            total += words[slot]
        real = (slots != codebook.size(0)).sum(dim=1, keepdim=True).clamp(min=1)
        means.append(total / real)
    return torch.cat(means, dim=1)


def _nearest(x: Tensor, y: Tensor, known: Tensor, labels: Tensor, own: Tensor | None) -> Tensor:
    r"""The distance of each row to the closest known row of its label, its own
    one left out; infinite ones are dropped.
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
