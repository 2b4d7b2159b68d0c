r"""Perturbations of the original graph by their names, as in the paper's privacy baselines."""

from __future__ import annotations

import re

from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.transforms import (
    AddAttributeNoise,
    AddRandomEdges,
    DropRandomEdges,
    Quantize,
    Reidentification,
    reidentification,
)

NUMBER = r'(\d+(?:\.\d+)?)'
PATTERNS = {
    'attribute noise x...': re.compile(rf'attribute noise x{NUMBER}'),
    'edge addition x...': re.compile(rf'edge addition x{NUMBER}'),
    'edge deletion ... %': re.compile(rf'edge deletion {NUMBER} %'),
}


def find_perturbations(name: str, seed: int = 0) -> list[BaseTransform]:
    r"""The transforms that a name stands for, such as ``attribute noise x5 +
    edge deletion 50 %``; none if it is no name of perturbations.

    Args:
        name (str): The name.
        seed (int, optional): The seed of their draws. (default: :obj:`0`)
    """
    out = []
    for part in name.split(' + '):
        found = _find(part, seed)
        if found is None:
            return []
        out.append(found)
    return out


def _find(name: str, seed: int) -> BaseTransform | None:
    attributes, addition, deletion = (p.fullmatch(name) for p in PATTERNS.values())
    if attributes:
        return AddAttributeNoise(float(attributes[1]), seed)
    if addition:
        return AddRandomEdges(float(addition[1]), seed)
    return DropRandomEdges(float(deletion[1]) / 100, seed) if deletion else None


def reidentification_of(variant: str) -> Reidentification | None:
    r"""The probabilities that the paper's comparison of baselines has for a
    variant: chances of a blind guess, by definition and not measured.

    Args:
        variant (str): The name of the variant, maybe of none.
    """
    k = re.fullmatch(r'k=([1-9]\d*)', variant)
    try:
        transforms = find_perturbations(variant)
    except ValueError:
        return None
    if k:
        transforms = [Quantize(int(k[1]))]
    return reidentification(transforms) if transforms else None
