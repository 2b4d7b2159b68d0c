"""Releases to export, and what reading an export must give."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from torch_geometric_cgt.data.edge_values import EdgeForm, EdgeValues
from torch_geometric_cgt.release import read_release, write_release
from torch_geometric_cgt.release.release import Release

RECORDED = Path(__file__).parents[1] / 'recorded' / 'format_2'
NAMES = ('k_anonymous', 'nodes')  # with few and with many null slots


def forest(folder: Path) -> dict[str, np.ndarray]:
    """The attributes of the forest of a release."""
    release = read_release(folder)
    return {k: v.numpy() for k, v in release.trees.to_data(release.codebook).to_dict().items()}


def same_columns(found, expected: dict[str, np.ndarray]) -> bool:
    """Whether columns have the values and the kinds of types that are expected."""
    for name, value in expected.items():
        column = np.asarray(found[name])
        if column.dtype.kind != value.dtype.kind or not np.array_equal(column, value):
            return False
    return True


def overlapping(folder: Path) -> Release:
    """Writes a release in which one tree is in no split and another one in two."""
    release = read_release(RECORDED / 'k_anonymous')
    split = release.trees.split.clone()
    split[0], split[1] = 0, 3
    release = replace(release, trees=replace(release.trees, split=split))
    folder.mkdir()
    write_release(folder, release)
    return release


def projected() -> Release:
    """A release in the space of a projection, with a codebook in half precision."""
    release = read_release(RECORDED / 'nodes')
    generator = torch.Generator().manual_seed(0)
    projection = torch.randn(20, release.codebook.size(1), generator=generator)
    return replace(release, codebook=release.codebook.bfloat16(), projection=projection)


def with_edge_values() -> Release:
    """A release whose edges have a weight and two attributes."""
    release = read_release(RECORDED / 'nodes')
    trees, generator = release.trees, torch.Generator().manual_seed(0)
    values = EdgeValues(torch.rand(5, 3, generator=generator), EdgeForm('float32', 'float32', 2))
    edge_tokens = torch.randint(5, trees.tokens.shape, generator=generator)
    has_edge = trees.real.clone()
    has_edge[:, 0] = False
    edge_tokens = edge_tokens.masked_fill(~has_edge, len(values)).int()
    trees = replace(trees, edge_tokens=edge_tokens, edge_values=values)
    trees.validate()
    return replace(release, trees=trees)
