r"""The release: the part of a build that may be published, and its files."""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor

from torch_geometric_cgt.data import EdgeValues, GraphProfile, TokenTrees, TreeShape
from torch_geometric_cgt.errors import CorruptFileError, LedgerError
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.quantizer.feature_space import multiply_rows
from torch_geometric_cgt.release.card import K_ANONYMITY, Card, check_private_card
from torch_geometric_cgt.release.checks import check_card, check_groups, tensor_specs
from torch_geometric_cgt.release.edge_facts import (
    check_edge_codebook,
    check_edge_facts,
    edge_specs,
    form_of,
)
from torch_geometric_cgt.release.generator_facts import check_generator_facts
from torch_geometric_cgt.release.profile_facts import (
    TENSOR,
    check_profile_facts,
    profile_specs,
    read_profile,
)
from torch_geometric_cgt.release.signature import SUFFIX, PublicKey, sign, verify_signature
from torch_geometric_cgt.release.terms import Terms, class_name_lines
from torch_geometric_cgt.release.wording import NEWEST, WORDINGS
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    check_sealed_files,
    read_sealed_json,
    read_tensors,
    write_sealed_json,
    write_tensors,
    write_text,
)
from torch_geometric_cgt.utils.limits import (
    MAX_CARD_BYTES,
    MAX_JSON_ITEMS,
    MAX_README_BYTES,
    MAX_RELEASE_BYTES,
)
from torch_geometric_cgt.utils.untrusted import check_names, check_tensors, open_regular
from torch_geometric_cgt.version import __version__

TENSORS, CARD, README = 'release.safetensors', 'card.json', 'README.md'
SIGNATURE = f'{CARD}{SUFFIX}'
# What computing with the numbers of an altered card can raise.
REFUSED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    CorruptFileError,
    LedgerError,
)


@dataclass(frozen=True)
class Release:
    r"""Synthetic computation graphs, their codebook and their card."""

    trees: TokenTrees
    codebook: Tensor
    card: dict[str, Any]
    projection: Tensor | None = None  # [F, d], if the codebook is projected
    profile: GraphProfile | None = None  # degrees and homophily of the source, protected

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
            **({'not_carried': list(source.not_carried)} if source.not_carried else {}),
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
    return Release(build.trees, build.codebook, card, build.projection, build.profile)


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
    if trees.edge_tokens is not None and trees.edge_values is not None:
        tensors['edge_tokens'] = trees.edge_tokens.int()
        tensors['edge_codebook'] = trees.edge_values.table
    if release.profile is not None:
        tensors[TENSOR] = release.profile.mean_degree
    write_tensors(folder / TENSORS, tensors)
    write_text(folder / README, describe(release))
    write_sealed_json(folder / CARD, release.card, [TENSORS, README])


def save_release(
    folder: Path,
    release: Release,
    sign_with: str | Path | None = None,
    max_bytes: int = MAX_RELEASE_BYTES,
) -> None:
    r"""Writes a release into a new folder, which appears only if
    :meth:`read_release` accepts it.

    Args:
        folder (Path): The folder to write.
        release (Release): The release.
        sign_with (str or Path, optional): The file of a secret key, see
            :meth:`~torch_geometric_cgt.release.sign_release`.
            (default: :obj:`None`)
        max_bytes (int, optional): The largest allowed size of the tensors.
            (default: 512 MiB)
    """
    with atomic_folder(folder) as draft:
        try:
            write_release(draft, release)
            read_release(draft, max_bytes=max_bytes)
        except (CorruptFileError, LedgerError) as error:
            raise CorruptFileError(
                f"This dataset was not saved to '{folder}', because loading would refuse it: "
                f'{str(error).replace(str(draft), str(folder))}'
            ) from error
        if sign_with is not None:
            sign(draft / CARD, sign_with)


def sign_release(
    folder: Path, secret_key: str | Path, max_bytes: int = MAX_RELEASE_BYTES
) -> PublicKey:
    r"""Signs a release that :meth:`read_release` accepts. The signature is one of
    :obj:`card.json`, which holds the checksums of all other files. Returns the
    public key that verifies it.

    Args:
        folder (Path): The folder of the release.
        secret_key (str or Path): The file of a secret key, see :meth:`new_key`.
        max_bytes (int, optional): The largest allowed size of the tensors.
            (default: 512 MiB)
    """
    read_release(folder, max_bytes=max_bytes)
    return sign(folder / CARD, secret_key)


def read_release(
    folder: Path,
    verify: bool = True,
    public_key: str | Path | None = None,
    max_bytes: int = MAX_RELEASE_BYTES,
) -> Release:
    r"""Reads a release that a stranger may have sent. Raises
    :class:`CorruptFileError` if files are missing, altered, inconsistent or too
    large, or if the folder holds anything else.

    Args:
        folder (Path): The folder to read.
        verify (bool, optional): Whether to check the files of the folder, the
            plan of a private build and the cost of its ledger.
            (default: :obj:`True`)
        public_key (str or Path, optional): A public key, or its file. If given,
            the release must have a signature of this key.
            (default: :obj:`None`)
        max_bytes (int, optional): The largest allowed size of the tensors.
            (default: 512 MiB)
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no release at '{folder}'")
    if verify:
        check_names(folder, (CARD, TENSORS, README, SIGNATURE))
    if public_key is not None:
        verify_signature(folder / CARD, public_key)
    card = _read_card(folder / CARD)
    files = card.pop('files')
    try:
        check_card(card)
        check_edge_facts(card)
        check_generator_facts(card)
        check_profile_facts(card)
        specs = tensor_specs(card) | edge_specs(card) | profile_specs(card)
    except REFUSED as error:
        raise CorruptFileError(_inconsistent(folder, error)) from error
    check_tensors(folder / TENSORS, specs, max_bytes)
    open_regular(folder / README, MAX_README_BYTES).close()
    check_sealed_files(folder / CARD, files)
    tensors = read_tensors(folder / TENSORS)
    try:
        return _checked_release(card, tensors, verify)
    except REFUSED as error:
        raise CorruptFileError(_inconsistent(folder, error)) from error


def _inconsistent(folder: Path, error: Exception) -> str:
    what = f'{error} is missing' if isinstance(error, KeyError) else str(error) or repr(error)
    return f"'{folder}' does not hold a consistent release: {what}"


def _read_card(path: Path) -> dict[str, Any]:
    r"""Reads a card and checks its format and the names of its files."""
    card = read_sealed_json(path, MAX_CARD_BYTES, MAX_JSON_ITEMS, check_files=False)
    del card['checksum']
    if type(card.get('format')) is not int or card['format'] not in WORDINGS:
        raise CorruptFileError(
            f"'{path}' has format {card.get('format')!r:.40}; this version reads {list(WORDINGS)}"
        )
    if card['files'].keys() != {TENSORS, README}:
        raise CorruptFileError(
            f"'{path}' must name the files '{TENSORS}' and '{README}', and no others "
            f'(got {list(card["files"])!r:.80})'
        )
    return card


def _checked_release(card: dict[str, Any], tensors: dict[str, Tensor], verify: bool) -> Release:
    r"""Checks the values of tensors and the promise of a card."""
    shape = TreeShape.of(card['num_neighbors'])
    sizes = (card['num_tokens'], card['num_classes'], shape)
    trees = TokenTrees(tensors['tokens'], tensors['y'], tensors['split'].long(), *sizes)
    if 'edge_tokens' in tensors:
        values = EdgeValues(tensors['edge_codebook'], form_of(card['privacy']['edges']))
        trees = replace(trees, edge_tokens=tensors['edge_tokens'], edge_values=values)
        check_edge_codebook(card, values)
    trees.validate()
    for name in ('codebook', 'projection'):
        if name in tensors and not all(map(math.isfinite, tensors[name].aminmax())):
            raise ValueError(f'The {name} is not finite')
    profile = read_profile(card, tensors)
    release = Release(trees, tensors['codebook'], card, tensors.get('projection'), profile)
    if not release.privacy.is_private:
        check_groups(card)
    elif verify:
        check_private_card(card, *release.codebook.shape)
        release.privacy.verify()
    return release


def describe(release: Release) -> str:
    r"""The text of the README of a release."""
    card, source, privacy = release.card, release.card['source'], release.privacy
    parameters = '\n'.join(f'- `{name}`: {value}' for name, value in card['parameters'].items())
    versions = '\n'.join(f'- {name} {version}' for name, version in card['versions'].items())
    promises = '\n'.join(f'- {sentence}' for sentence in privacy.guaranteed)
    limits = '\n'.join(f'- {sentence}' for sentence in privacy.not_guaranteed)
    lost = ''
    if 'not_carried' in source:
        names = ', '.join(f'`{name}`' for name in source['not_carried'])
        lost = f'\nThese attributes of the source are not carried over: {names}.\n'
    edges = '' if source['num_edges'] is None else f'{source["num_edges"]:,} edges, '
    stated = Terms.of(card).lines()
    terms = '\n'.join(['## Terms', '', *stated, '', '']) if stated else ''
    class_names = '\n'.join(class_name_lines(card))
    return f"""# Synthetic substitute of {source['name']}

{card['num_trees']:,} synthetic computation graphs, made on {card['created']} from a graph with
{source['num_nodes']:,} nodes, {edges}{source['num_features']:,} features
and {source['num_classes']} labels. They were drawn from a model of that graph, {_origin(privacy)}.
{lost}
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

{terms}{class_names}## Files

- `{TENSORS}`: {_tensors(release)}.
- `{CARD}`: the facts on this page for programs, with checksums of all files.

## Parameters

{parameters}

## Versions

{versions}
"""


def _origin(privacy: Card) -> str:
    r"""How the trees of a release differ from those of the source, for its README."""
    if privacy.copies_trees:
        return 'and each of them is a copy of one in it, with the feature vectors of groups'
    if privacy.k_reached == 1 and privacy.mechanism == K_ANONYMITY:
        return 'but their feature vectors can be those of single nodes of it'
    return 'not copied from it'


def _tensors(release: Release) -> str:
    r"""The tensors of a release, for its README."""
    card, privacy, trees = release.card, release.privacy, release.trees
    codebook = 'the mean feature vector of each group'
    if privacy.rounding is not None:
        codebook = 'the rounded mean feature vector of each group'
    if privacy.mechanism != K_ANONYMITY:
        codebook = 'the noisy mean feature vector of each group'
    text = f"""`tokens` [{card['num_trees']}, {trees.shape.num_slots}] (the group of each
  breadth-first slot, {card['num_tokens']} where there is no node), `y` (labels), `split` (1 train,
  2 validation, 4 test), `codebook` ({codebook})"""
    if release.projection is not None:
        text += ', `projection` (features times this matrix are in the space of the codebook)'
    if trees.edge_values is not None:
        names = ' and '.join(f'`{name}`' for name in trees.edge_values.form.names)
        text += (
            f', `edge_tokens` (the row of `edge_codebook` for the edge of each slot to its parent, '
            f'{len(trees.edge_values)} where there is none), `edge_codebook` ({names})'
        )
    if release.profile is not None:
        text += f', `{TENSOR}` (the mean degree of each group of source nodes, rounded)'
    return text
