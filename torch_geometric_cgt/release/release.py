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
from torch_geometric_cgt.data.sharded_rows import ShardedRows
from torch_geometric_cgt.errors import CorruptFileError, LedgerError
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.quantizer.feature_space import multiply_rows
from torch_geometric_cgt.release.card import Card, check_private_card
from torch_geometric_cgt.release.checks import check_card, check_groups, tensor_specs
from torch_geometric_cgt.release.optional_facts import (
    PROFILE_TENSOR,
    check_edge_codebook,
    check_edge_facts,
    check_generator_facts,
    check_profile_facts,
    edge_specs,
    form_of,
    profile_specs,
    read_profile,
)
from torch_geometric_cgt.release.readme import CARD, README, TENSORS, describe
from torch_geometric_cgt.release.shards import (
    FORMAT,
    TREE_TENSORS,
    Shards,
    validate_trees,
    whole_tensors,
)
from torch_geometric_cgt.release.signature import SUFFIX, PublicKey, sign, verify_signature
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
    SHARD_BYTES,
)
from torch_geometric_cgt.utils.untrusted import check_names, check_tensors, open_regular
from torch_geometric_cgt.version import __version__

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


def write_release(folder: Path, release: Release, shard_bytes: int = SHARD_BYTES) -> None:
    r"""Writes a release into an existing folder. The card comes last, so that a
    folder without one is not complete.

    Args:
        folder (Path): The folder.
        release (Release): The release.
        shard_bytes (int, optional): A release with more bytes of tensors is
            written in several files of at most this size. (default: 512 MiB)
    """
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
        tensors[PROFILE_TENSOR] = release.profile.mean_degree
    shards, card, files = Shards.of(tensors, shard_bytes), release.card, [TENSORS, README]
    if shards is not None:
        shards.write(folder, tensors)
        tensors = {name: v for name, v in tensors.items() if name not in TREE_TENSORS}
        card, files = shards.card(card), [*files, *shards.names]
    write_tensors(folder / TENSORS, tensors)
    write_text(folder / README, describe(release, shards))
    write_sealed_json(folder / CARD, card, files)


def save_release(
    folder: Path,
    release: Release,
    sign_with: str | Path | None = None,
    max_bytes: int = MAX_RELEASE_BYTES,
    shard_bytes: int = SHARD_BYTES,
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
        shard_bytes (int, optional): See :meth:`write_release`.
            (default: 512 MiB)
    """
    with atomic_folder(folder) as draft:
        try:
            write_release(draft, release, shard_bytes)
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
    if public_key is not None:
        verify_signature(folder / CARD, public_key)
    card, shards = _read_card(folder / CARD)
    files = card.pop('files')
    if verify:
        check_names(folder, (*files, CARD, SIGNATURE))
    try:
        check_card(card)
        check_edge_facts(card)
        check_generator_facts(card)
        check_profile_facts(card)
        specs = tensor_specs(card) | edge_specs(card) | profile_specs(card)
    except REFUSED as error:
        raise CorruptFileError(_inconsistent(folder, error)) from error
    if shards is not None:
        shards.check(folder, specs, max_bytes)
    whole = specs if shards is None else whole_tensors(specs)
    check_tensors(folder / TENSORS, whole, max_bytes)
    open_regular(folder / README, MAX_README_BYTES).close()
    check_sealed_files(folder / CARD, files)
    tensors = read_tensors(folder / TENSORS)
    if shards is not None:
        tensors |= shards.read(folder, specs)
    try:
        return _checked_release(card, tensors, verify)
    except REFUSED as error:
        raise CorruptFileError(_inconsistent(folder, error)) from error


def _inconsistent(folder: Path, error: Exception) -> str:
    what = f'{error} is missing' if isinstance(error, KeyError) else str(error) or repr(error)
    return f"'{folder}' does not hold a consistent release: {what}"


def _read_card(path: Path) -> tuple[dict[str, Any], Shards | None]:
    r"""Reads a card and checks its format and the names of its files. Returns the card that
    the release has in one file, and how it is divided into several.
    """
    card = read_sealed_json(path, MAX_CARD_BYTES, MAX_JSON_ITEMS, check_files=False)
    del card['checksum']
    shards = Shards.from_card(card)
    if type(card.get('format')) is not int or card['format'] not in WORDINGS:
        known = [*WORDINGS, FORMAT]
        raise CorruptFileError(
            f"'{path}' has format {card.get('format')!r:.40}; this version reads {known}"
        )
    if shards is not None and shards.count > len(card['files']):
        raise CorruptFileError(f"'{path}' does not name all of its {shards.count:,} shards")
    names = set() if shards is None else set(shards.names)
    if card['files'].keys() != {TENSORS, README} | names:
        and_shards = '' if shards is None else f', {shards.count} shards'
        raise CorruptFileError(
            f"'{path}' must name the files '{TENSORS}' and '{README}'{and_shards}, and no others "
            f'(got {list(card["files"])!r:.80})'
        )
    return card, shards


def _checked_release(card: dict[str, Any], tensors: dict[str, Tensor], verify: bool) -> Release:
    r"""Checks the values of tensors and the promise of a card."""
    shape = TreeShape.of(card['num_neighbors'])
    sizes = (card['num_tokens'], card['num_classes'], shape)
    split = tensors['split']
    split = split if isinstance(split, ShardedRows) else split.long()
    trees = TokenTrees(tensors['tokens'], tensors['y'], split, *sizes)
    if 'edge_tokens' in tensors:
        values = EdgeValues(tensors['edge_codebook'], form_of(card['privacy']['edges']))
        trees = replace(trees, edge_tokens=tensors['edge_tokens'], edge_values=values)
        check_edge_codebook(card, values)
    validate_trees(trees)
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
