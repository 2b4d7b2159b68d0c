r"""Variants of the generator: parts left out, the paper's own form, and graphs that must fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_geometric_cgt.benchmark.training import TreeSet

PAPER = "the paper's form"
ARGUMENTS = ('k', 'min_support')  # that a variant can name with a number


@dataclass(frozen=True)
class Variant:
    r"""What is different from a default build."""

    build: dict[str, Any] = field(default_factory=dict)  # arguments of SyntheticCGTDataset
    spoil: Callable[[TreeSet, int], TreeSet] | None = None  # done to the generated trees


def _paper_form(**switches: Any) -> Variant:
    return Variant({'num_scenes': 0, 'generator_args': {'siblings': 'independent', **switches}})


def shuffle_labels(trees: TreeSet, seed: int) -> TreeSet:
    r"""Labels are dealt anew, inside each split: trees tell nothing of them."""
    rng = torch.Generator().manual_seed(seed)
    y = trees.y.clone()
    for split in trees.split.unique():
        rows = (trees.split == split).nonzero().view(-1)
        y[rows] = y[rows[torch.randperm(rows.numel(), generator=rng)]]
    return dataclasses.replace(trees, y=y)


def shuffle_children(trees: TreeSet, seed: int) -> TreeSet:
    r"""Real slots below the roots are dealt anew among all trees: shapes stay,
    and who is whose neighbour is chance.
    """
    rng = torch.Generator().manual_seed(seed)
    index = trees.index.clone()
    below = index[:, 1:]
    real = below < trees.x.size(0)
    token = below[real]
    below[real] = token[torch.randperm(token.numel(), generator=rng)]
    return dataclasses.replace(trees, index=index)


VARIANTS = {
    '': Variant(),
    PAPER: _paper_form(),
    'no label': _paper_form(label_conditioning=False),
    'no layer position': _paper_form(position='slot'),
    'no attention mask': _paper_form(attention='all'),
    'none of the three': _paper_form(label_conditioning=False, position='slot', attention='all'),
    'shuffled labels': Variant(spoil=shuffle_labels),
    'random children': Variant(spoil=shuffle_children),
}


def find_variant(name: str) -> Variant:
    r"""A variant by its name; ``k=100`` and ``min_support=5`` are builds with
    these arguments.
    """
    argument, _, value = name.partition('=')
    if argument in ARGUMENTS and value.isdigit():
        return Variant({argument: int(value)})
    if name not in VARIANTS:
        known = [*VARIANTS, *(f'{argument}=...' for argument in ARGUMENTS)]
        raise ValueError(f"Unknown variant '{name}'; choose from {known}")
    return VARIANTS[name]
