r"""Variants by name: of the generator, of its privacy, perturbed graphs and negative controls."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity, Promise
from torch_geometric_cgt.transforms import (
    AddAttributeNoise,
    AddRandomEdges,
    DropRandomEdges,
    Quantize,
    Reidentification,
    reidentification,
)

PAPER = "the paper's form"
ARGUMENTS = ('k', 'min_support')  # with a number, these name a variant
NUMBER = r'(\d+(?:\.\d+)?)'
PERTURBATIONS = {
    'attribute noise x...': re.compile(rf'attribute noise x{NUMBER}'),
    'edge addition x...': re.compile(rf'edge addition x{NUMBER}'),
    'edge deletion ... %': re.compile(rf'edge deletion {NUMBER} %'),
}


@dataclass(frozen=True)
class Variant:
    r"""The differences to a default build.

    Args:
        groups (dict, optional): Parameters of k-anonymity.
        private (DifferentialPrivacy, optional): What is promised instead.
        generator (dict, optional): Arguments of the generator.
        corrupt (callable, optional): Spoils generated trees, by seed.
        perturb (callable, optional): The perturbations that replace the
            generator, by seed.
    """

    groups: dict[str, Any] = field(default_factory=dict)
    private: DifferentialPrivacy | None = None
    generator: dict[str, Any] = field(default_factory=dict)
    corrupt: Callable[[TokenTrees, int], TokenTrees] | None = None
    perturb: Callable[[int], list[BaseTransform]] | None = None

    def promise(self, k: int) -> Promise:
        r"""What the build promises.

        Args:
            k (int): The minimum size of a cluster of a default build.
        """
        return self.private or KAnonymity(**{'k': k, **self.groups})


def shuffle_labels(trees: TokenTrees, seed: int) -> TokenTrees:
    r"""Permutes the labels inside each split, so that trees do not predict
    them.
    """
    rng = torch.Generator().manual_seed(seed)
    y = trees.y.clone()
    for split in trees.split.unique():
        rows = (trees.split == split).nonzero().view(-1)
        y[rows] = y[rows[torch.randperm(rows.numel(), generator=rng)]]
    return replace(trees, y=y)


def shuffle_children(trees: TokenTrees, seed: int) -> TokenTrees:
    r"""Permutes the tokens of all real slots below the roots. Null slots stay,
    and neighbours are random.
    """
    rng = torch.Generator().manual_seed(seed)
    tokens = trees.tokens.clone()
    below, real = tokens[:, 1:], trees.real[:, 1:]
    token = below[real]
    below[real] = token[torch.randperm(token.numel(), generator=rng)]
    return replace(trees, tokens=tokens)


def _paper_form(**switches: Any) -> Variant:
    return Variant(generator={'num_scenes': 0, 'siblings': 'independent', **switches})


VARIANTS = {
    '': Variant(),
    PAPER: _paper_form(),
    'no label': _paper_form(label_conditioning=False),
    'no layer position': _paper_form(position='slot'),
    'no attention mask': _paper_form(attention='all'),
    'none of the three': _paper_form(label_conditioning=False, position='slot', attention='all'),
    'shuffled labels': Variant(corrupt=shuffle_labels),
    'random children': Variant(corrupt=shuffle_children),
}


def _frozen(epsilon: float, form: str) -> DifferentialPrivacy:
    r"""The promise per frozen record, which the paper makes. It protects no person."""
    return DifferentialPrivacy(epsilon, unit='frozen_record', form=form)


# The names of these contain their epsilon.
PRIVATE: dict[str, Callable[[float], Variant]] = {
    'clusters': lambda epsilon: Variant({'cluster_epsilon': epsilon}),
    'dp-sgd': lambda epsilon: Variant(private=_frozen(epsilon, 'dp_sgd')),
    'histograms': lambda epsilon: Variant(private=_frozen(epsilon, 'histograms')),
}


def find_variant(name: str) -> Variant:
    r"""A variant by its name.

    ``k=100`` and ``min_support=5`` are builds with these arguments.
    ``clusters epsilon=10`` is a build with private feature vectors. ``dp-sgd
    epsilon=10`` and ``histograms epsilon=10`` are private from end to end, per
    frozen record.
    ``attribute noise x5 + edge deletion 50 %`` is the original graph after
    these perturbations, without a generator.
    """
    if name in VARIANTS:
        return VARIANTS[name]
    argument, _, value = name.partition('=')
    if argument in ARGUMENTS and value.isdigit():
        return Variant({argument: int(value)})
    if private := re.fullmatch(rf'({"|".join(PRIVATE)}) epsilon=([\d.]+(?:e\d+)?)', name):
        return PRIVATE[private[1]](_positive(private[2], name))
    if find_perturbations(name):
        return Variant(perturb=functools.partial(find_perturbations, name))
    arguments = [f'{argument}=...' for argument in ARGUMENTS]
    forms = [f'{form} epsilon=...' for form in PRIVATE]
    allowed = [*VARIANTS, *arguments, *forms, *PERTURBATIONS]
    raise ValueError(f"Unknown variant '{name}'; choose from {allowed}")


def find_perturbations(name: str, seed: int = 0) -> list[BaseTransform]:
    r"""The transforms of a name such as ``attribute noise x5 + edge deletion
    50 %``. The list is empty if the name is not one of perturbations.

    Args:
        name (str): The name.
        seed (int, optional): The seed of the transforms. (default: :obj:`0`)
    """
    out = []
    for part in name.split(' + '):
        found = _find_perturbation(part, seed)
        if found is None:
            return []
        out.append(found)
    return out


def reidentification_of(variant: str) -> Reidentification | None:
    r"""The probabilities of re-identification in the paper's comparison of
    baselines. They are defined as chances of a blind guess, not measured.

    Args:
        variant (str): The name of a variant. The result is :obj:`None` for
            names without such a probability.
    """
    k = re.fullmatch(r'k=([1-9]\d*)', variant)
    try:
        transforms = find_perturbations(variant)
    except ValueError:
        return None
    if k:
        transforms = [Quantize(int(k[1]))]
    return reidentification(transforms) if transforms else None


def _find_perturbation(name: str, seed: int) -> BaseTransform | None:
    attributes, addition, deletion = (p.fullmatch(name) for p in PERTURBATIONS.values())
    if attributes:
        return AddAttributeNoise(float(attributes[1]), seed)
    if addition:
        return AddRandomEdges(float(addition[1]), seed)
    return DropRandomEdges(float(deletion[1]) / 100, seed) if deletion else None


def _positive(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"epsilon must be a positive number (got '{name}')")
    return value
