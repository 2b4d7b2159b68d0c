r"""Generated trees on disk, written in shards so that an interrupted build can resume."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import torch
from torch import Tensor

from torch_geometric_cgt.utils.files import require_writable

TOKENS, DONE = 'tokens.bin', 'done-{rank}.jsonl'


class TokenShards:
    r"""A file of token trees, ``[n, T]`` of type int32. Several processes can fill
    it in any order and in several runs.

    A shard is complete if a process has logged its checksum and the checksum
    matches the file. A process that is killed loses at most one shard.

    Args:
        folder (Path): A folder that all processes share.
        num_trees (int): The number of trees.
        num_slots (int): The number of slots of a tree.
        shard_size (int): The number of trees of a shard.
    """

    def __init__(self, folder: Path, num_trees: int, num_slots: int, shard_size: int) -> None:
        require_writable(folder)
        self.folder = folder
        self.num_trees = num_trees
        self.num_slots = num_slots
        self.rows = torch.arange(num_trees).split(shard_size)
        with open(folder / TOKENS, 'ab') as file:
            file.truncate(self._offset(num_trees))

    def missing(self) -> list[int]:
        r"""The numbers of the shards that are not complete."""
        done = self._done()
        return [
            shard for shard in range(len(self.rows)) if done.get(shard) != self._checksum(shard)
        ]

    def write(self, shard: int, tokens: Tensor, rank: int = 0) -> None:
        r"""Writes one shard.

        Args:
            shard (int): The number of the shard.
            tokens (torch.Tensor): The trees of the shard.
            rank (int, optional): The rank of this process.
                (default: :obj:`0`)
        """
        content = tokens.to(torch.int32).contiguous().numpy().tobytes()
        begin, end = self._span(shard)
        if len(content) != end - begin:
            raise ValueError(f'Shard {shard} must have {end - begin} bytes (got {len(content)})')
        with open(self.folder / TOKENS, 'r+b') as file:
            file.seek(begin)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        line = json.dumps({'shard': shard, 'sha256': hashlib.sha256(content).hexdigest()})
        with open(self.folder / DONE.format(rank=rank), 'a', encoding='utf-8') as file:
            file.write(line + '\n')

    def tokens(self) -> Tensor:
        r"""All trees, memory-mapped from the file."""
        size = self.num_trees * self.num_slots
        if size == 0:
            return torch.empty(self.num_trees, self.num_slots, dtype=torch.int32)
        path = str(self.folder / TOKENS)
        return torch.from_file(path, shared=True, size=size, dtype=torch.int32).view(
            self.num_trees, self.num_slots
        )

    def _done(self) -> dict[int, str]:
        done = {}
        for path in sorted(self.folder.glob(DONE.format(rank='*'))):
            for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
                try:
                    entry = json.loads(line)
                    done[int(entry['shard'])] = str(entry['sha256'])
                except (ValueError, KeyError, TypeError):
                    continue  # an interrupted process left an incomplete line
        return done

    def _checksum(self, shard: int) -> str:
        begin, end = self._span(shard)
        with open(self.folder / TOKENS, 'rb') as file:
            file.seek(begin)
            return hashlib.sha256(file.read(end - begin)).hexdigest()

    def _span(self, shard: int) -> tuple[int, int]:
        first, last = int(self.rows[shard][0]), int(self.rows[shard][-1])
        return self._offset(first), self._offset(last + 1)

    def _offset(self, tree: int) -> int:
        return tree * self.num_slots * 4
