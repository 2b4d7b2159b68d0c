r"""Releases in several files: the trees lie in shards, each with its own checksums."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.data.sharded_rows import ShardedRows
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.release.checks import integer
from torch_geometric_cgt.utils.block_checksums import num_workers
from torch_geometric_cgt.utils.files import write_tensors
from torch_geometric_cgt.utils.untrusted import OVERRIDE, SIZES, TensorSpec, check_tensors

FORMAT = 4  # of a card of a release in several files; 'shards' states that of everything else
TREE_TENSORS = ('tokens', 'y', 'split', 'edge_tokens')  # with one row per tree
# The name has the format, because readers before version 0.2.0 quote the name of a file that they
# do not know, before they read the card.
NAME = 'trees-{number:05d}-of-{count:05d}.format-4.safetensors'
DTYPES = {'I32': torch.int32, 'I64': torch.int64, 'U8': torch.uint8}


@dataclass(frozen=True)
class Shards:
    r"""How the trees of a release are divided into files.

    Args:
        num_trees (int): The number of all trees.
        trees_per_shard (int): The number of trees of each file but the last one.
    """

    num_trees: int
    trees_per_shard: int

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], shard_bytes: int) -> Shards | None:
        r"""Divides trees into files of at most so many bytes. Returns :obj:`None`
        if one file suffices for the whole release.

        Args:
            tensors (dict): The tensors of the release.
            shard_bytes (int): The largest size of the tensors of a file.
        """
        if shard_bytes < 1:
            raise ValueError(f"'shard_bytes' must be at least 1 (got {shard_bytes})")
        if sum(value.numel() * value.element_size() for value in tensors.values()) <= shard_bytes:
            return None
        rows = [tensors[name] for name in TREE_TENSORS if name in tensors]
        num_trees = rows[0].size(0)
        row_bytes = sum(value.element_size() * math.prod(value.shape[1:]) for value in rows)
        return cls(num_trees, min(max(1, shard_bytes // row_bytes), max(1, num_trees)))

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> Shards | None:
        r"""Reads how a release is divided, and leaves the card that the release has
        in one file.

        Args:
            card (dict): The content of :obj:`card.json`. It is changed.
        """
        if card.get('format') != FORMAT:
            return None
        stated = card.pop('shards', None)
        if not isinstance(stated, dict) or stated.keys() != {'format', 'trees_per_shard'}:
            raise CorruptFileError(
                f"'shards' of the card must state 'format' and 'trees_per_shard' "
                f'(got {stated!r:.80})'
            )
        try:
            integer(1)('num_trees', card.get('num_trees'))
            integer(1, card['num_trees'])('trees_per_shard', stated['trees_per_shard'])
        except ValueError as error:
            raise CorruptFileError(str(error)) from error
        card['format'] = stated['format']
        return cls(card['num_trees'], stated['trees_per_shard'])

    def card(self, card: dict[str, Any]) -> dict[str, Any]:
        r"""The card of a release that is divided like this.

        Args:
            card (dict): The card that the release has in one file.
        """
        shards = {'format': card['format'], 'trees_per_shard': self.trees_per_shard}
        return {**card, 'format': FORMAT, 'shards': shards}

    @property
    def count(self) -> int:
        r"""The number of files."""
        return -(-self.num_trees // self.trees_per_shard)

    @property
    def names(self) -> list[str]:
        r"""The names of the files, in the order of their trees."""
        return [NAME.format(number=number + 1, count=self.count) for number in range(self.count)]

    @property
    def spans(self) -> list[slice]:
        r"""The trees of each file."""
        starts = range(0, self.num_trees, self.trees_per_shard)
        return [slice(start, min(start + self.trees_per_shard, self.num_trees)) for start in starts]

    def write(self, folder: Path, tensors: Mapping[str, Tensor]) -> None:
        r"""Writes the trees.

        Args:
            folder (Path): An existing folder.
            tensors (dict): The tensors of the release.
        """
        rows = {name: tensors[name] for name in TREE_TENSORS if name in tensors}
        for name, span in zip(self.names, self.spans, strict=True):
            write_tensors(folder / name, {key: value[span] for key, value in rows.items()})

    def check(self, folder: Path, specs: Mapping[str, TensorSpec], max_bytes: int) -> None:
        r"""Compares the headers and the sizes of all files with what they must hold.
        Raises :class:`CorruptFileError`.

        Args:
            folder (Path): The folder of the release.
            specs (dict): The tensors of the release.
            max_bytes (int): The largest allowed size of all tensors.
        """
        sizes = [math.prod(s.shape) * min(SIZES[d] for d in s.dtypes) for s in specs.values()]
        if sum(sizes) > max_bytes:
            raise CorruptFileError(
                f"'{folder}' would hold tensors of {sum(sizes):,} bytes or more, but at most "
                f'{max_bytes:,} are allowed: {OVERRIDE}'
            )
        rows = {name: specs[name] for name in TREE_TENSORS if name in specs}
        for name, span in zip(self.names, self.spans, strict=True):
            count = span.stop - span.start
            here = {k: replace(s, shape=(count, *s.shape[1:])) for k, s in rows.items()}
            check_tensors(folder / name, here, max_bytes)

    def read(self, folder: Path, specs: Mapping[str, TensorSpec]) -> dict[str, Tensor]:
        r"""The trees, of which nothing is read yet.

        Args:
            folder (Path): The folder of the release.
            specs (dict): The tensors of the release.
        """
        paths = [folder.absolute() / name for name in self.names]
        return {
            name: ShardedRows(
                paths, name, specs[name].shape, DTYPES[specs[name].dtypes[0]], self.trees_per_shard
            )
            for name in TREE_TENSORS
            if name in specs
        }


def whole_tensors(specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    r"""The tensors of a divided release that do not have one row per tree.

    Args:
        specs (dict): The tensors of the release.
    """
    return {name: spec for name, spec in specs.items() if name not in TREE_TENSORS}


def parts_of(trees: TokenTrees) -> list[slice]:
    r"""The trees of each file of a release, or all trees if it has one.

    Args:
        trees (TokenTrees): The trees.
    """
    if isinstance(trees.tokens, ShardedRows):
        return trees.tokens.spans()
    return [slice(0, len(trees))]


def validate_trees(trees: TokenTrees) -> None:
    r"""Raises :class:`ValueError` if shapes, values or null slots are inconsistent. Several
    threads check the files of a divided release, and the error names the file.

    Args:
        trees (TokenTrees): The trees of a release.
    """
    if not isinstance(trees.tokens, ShardedRows):
        trees.validate()
        return

    def wrong(span: slice) -> str | None:
        try:
            trees.select(span).validate()
        except ValueError as error:
            return str(error)
        return None

    spans = trees.tokens.spans()
    with ThreadPoolExecutor(num_workers(len(spans))) as pool:
        for path, error in zip(trees.tokens.paths, pool.map(wrong, spans), strict=True):
            if error is not None:
                raise ValueError(f"'{path.name}': {error}")


def is_shard(name: str) -> bool:
    r"""Whether a file name is that of a shard."""
    return re.fullmatch(r'trees-\d{5,}-of-\d{5,}\.format-4\.safetensors', name) is not None


def shard_paths(folder: Path) -> Iterator[Path]:
    r"""The shards in the folder of a release, by name."""
    return (path for path in sorted(folder.iterdir()) if is_shard(path.name))
