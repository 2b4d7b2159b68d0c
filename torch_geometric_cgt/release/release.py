r"""The release: the part of a build that may be published, and its files."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.errors import CorruptFileError, LedgerError
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.quantizer.feature_space import multiply_rows
from torch_geometric_cgt.release.card import K_ANONYMITY, Card
from torch_geometric_cgt.release.verify import check_private_card
from torch_geometric_cgt.release.wording import NEWEST, WORDINGS
from torch_geometric_cgt.utils.files import (
    read_sealed_json,
    read_tensors,
    write_sealed_json,
    write_tensors,
    write_text,
)
from torch_geometric_cgt.version import __version__

TENSORS, CARD, README = 'release.safetensors', 'card.json', 'README.md'


@dataclass(frozen=True)
class Release:
    r"""Synthetic computation graphs, their codebook and their card."""

    trees: TokenTrees
    codebook: Tensor
    card: dict[str, Any]
    projection: Tensor | None = None  # [F, d], if the codebook is projected

    @cached_property
    def privacy(self) -> Card:
        r"""The privacy card."""
        return Card.from_dict(self.card['privacy'], self.card['format'])

    def project(self, x: Tensor) -> Tensor:
        r"""Maps features to the space of the codebook: unchanged, or by the public
        projection of the release.

        Args:
            x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
        """
        return project(x, self.projection)


def project(x: Tensor, projection: Tensor | None) -> Tensor:
    r"""Projects features, if there is a projection.

    Args:
        x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
        projection (torch.Tensor, optional): The projection, ``[F, d]``.
    """
    if projection is None:
        return x
    if x.size(1) != projection.size(0):
        raise ValueError(f'The projection expects {projection.size(0)} features (got {x.size(1)})')
    return multiply_rows(x.float(), projection)


def make_release(source: Source, config: BuildConfig, build: Build) -> Release:
    r"""Creates a release from the publishable part of a build, and its card."""
    data = source.data
    private, parameters = config.private is not None, config.to_dict()
    if private:
        # An attacker who knows the seed of the noise can subtract it. The number of edges is
        # private, too.
        del parameters['private']['noise_seed']
    card = {
        'format': NEWEST,
        'created': datetime.now(timezone.utc).strftime('%Y-%m-%d'),
        'source': {
            'name': source.name,
            'num_nodes': data.num_nodes,
            'num_edges': None if private else data.num_edges,
            'num_features': data.num_features,
            'num_classes': source.num_classes,
            'num_labelled': source.root.numel(),
            'splits': 'of the source' if source.split is not None else 'random 50/10/40',
        },
        'parameters': parameters,
        'privacy': Card(**build.facts).to_dict(),
        'num_trees': len(build.trees),
        'num_tokens': build.trees.num_tokens,
        'num_classes': build.trees.num_classes,
        'num_neighbors': list(build.trees.shape.num_neighbors),
        'num_features': build.codebook.size(1),
        'versions': {
            'torch_geometric_cgt': __version__,
            'torch': torch.__version__,
            'torch_geometric': torch_geometric.__version__,
            'python': platform.python_version(),
        },
    }
    return Release(build.trees, build.codebook, card, build.projection)


def write_release(folder: Path, release: Release) -> None:
    r"""Writes a release into an existing folder."""
    trees = release.trees
    tensors = {
        'tokens': trees.tokens.int(),
        'y': trees.y.long(),
        'split': trees.split.to(torch.uint8),
        'codebook': release.codebook,
    }
    if release.projection is not None:
        tensors['projection'] = release.projection
    write_tensors(folder / TENSORS, tensors)
    write_text(folder / README, describe(release))
    write_sealed_json(folder / CARD, release.card, [TENSORS, README])


def read_release(folder: Path, verify: bool = True) -> Release:
    r"""Reads a release. Raises :class:`CorruptFileError` if files are missing,
    altered or inconsistent.

    Args:
        folder (Path): The folder to read.
        verify (bool, optional): Whether to check the card of a private release
            and to recompute the cost of its ledger. (default: :obj:`True`)
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no release at '{folder}'")
    card = read_sealed_json(folder / CARD)
    del card['files'], card['checksum']
    if card.get('format') not in WORDINGS:
        raise CorruptFileError(
            f"'{folder / CARD}' has format {card.get('format')!r}; this version reads "
            f'{list(WORDINGS)}'
        )
    tensors = read_tensors(folder / TENSORS)
    try:
        shape = TreeShape.of(card['num_neighbors'])
        trees = TokenTrees(
            tensors['tokens'],
            tensors['y'],
            tensors['split'].long(),
            card['num_tokens'],
            card['num_classes'],
            shape,
        )
        trees.validate()
        codebook = tensors['codebook']
        if codebook.dim() != 2 or codebook.size(0) != trees.num_tokens:
            raise ValueError(
                f'Expected a codebook with {trees.num_tokens} rows (got {list(codebook.shape)})'
            )
        if not codebook.is_floating_point() or not bool(torch.isfinite(codebook).all()):
            raise ValueError('The codebook is not finite')
        release = Release(trees, codebook, card, _checked_projection(tensors, card))
        if release.privacy.is_private and verify:
            check_private_card(card, *codebook.shape)
            release.privacy.verify()
    except (KeyError, TypeError, ValueError, LedgerError) as error:
        raise CorruptFileError(f"'{folder}' does not hold a consistent release: {error}") from error
    return release


def _checked_projection(tensors: dict[str, Tensor], card: dict[str, Any]) -> Tensor | None:
    projection = tensors.get('projection')
    declared = card['privacy'].get('projected')
    found = None if projection is None else list(projection.shape)
    if found != declared:
        raise ValueError(
            f'The card states a projection of shape {declared}, but the files contain {found}'
        )
    if projection is not None and not bool(torch.isfinite(projection).all()):
        raise ValueError('The projection is not finite')
    return projection


def describe(release: Release) -> str:
    r"""The text of the README of a release."""
    card, source, privacy = release.card, release.card['source'], release.privacy
    parameters = '\n'.join(f'- `{name}`: {value}' for name, value in card['parameters'].items())
    versions = '\n'.join(f'- {name} {version}' for name, version in card['versions'].items())
    promises = '\n'.join(f'- {sentence}' for sentence in privacy.guaranteed)
    limits = '\n'.join(f'- {sentence}' for sentence in privacy.not_guaranteed)
    edges = '' if source['num_edges'] is None else f'{source["num_edges"]:,} edges, '
    codebook = 'the mean feature vector of each group'
    if privacy.mechanism != K_ANONYMITY:
        codebook = 'the noisy mean feature vector of each group'
    projection = ''
    if release.projection is not None:
        projection = ', `projection` (features times this matrix are in the space of the codebook)'
    return f"""# Synthetic substitute of {source['name']}

{card['num_trees']:,} synthetic computation graphs, made on {card['created']} from a graph with
{source['num_nodes']:,} nodes, {edges}{source['num_features']:,} features
and {source['num_classes']} labels. They were drawn from a model of that graph; no node or edge
of it is in here.

```python
from torch_geometric_cgt import SyntheticCGTDataset

dataset = SyntheticCGTDataset.load('path/to/this/folder')
data = dataset[0]  # a PyG Data object
```

## What is guaranteed

Unit: {privacy.unit}. In short: {privacy.summary}.

{promises}

## What is not guaranteed

{limits}

## Files

- `{TENSORS}`: `tokens` [{card['num_trees']}, {release.trees.shape.num_slots}] (the group of each
  breadth-first slot, {card['num_tokens']} where there is no node), `y` (labels), `split` (1 train,
  2 validation, 4 test), `codebook` ({codebook}){projection}.
- `{CARD}`: the facts on this page for programs, with checksums of all files.

## Parameters

{parameters}

## Versions

{versions}
"""
