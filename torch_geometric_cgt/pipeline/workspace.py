r"""The working folder of a build: its lock, finished stages, and shards of sampled trees."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError, NotWritableError
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    require_writable,
    write_sealed_json,
    write_tensors,
)
from torch_geometric_cgt.utils.warn import warn_user

TENSORS, FACTS, LOCKS = 'tensors.safetensors', 'facts.json', '.locks'
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

Outcome = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and facts for a JSON file
TOKENS, DONE = 'tokens.bin', 'done-{rank}.jsonl'


@contextmanager
def exclusive(work: Path) -> Iterator[None]:
    r"""Locks a working folder, so that one build at a time uses it.

    Another build of the same dataset waits until this one is done. The lock file
    is not in the working folder, so that clearing the folder does not remove it.
    The lock is released when the process ends, even if it is killed.

    Args:
        work (Path): The working folder.
    """
    locks = work.parent / LOCKS
    require_writable(locks)
    lock = FileLock(locks / f'{work.name}.lock')
    try:
        lock.acquire(blocking=False)
    except Timeout:
        warn_user(
            f"Another process is building the same dataset in '{work}': waiting for it",
        )
        lock.acquire()
    try:
        require_writable(work)
        yield
    finally:
        if work.is_dir() and not any(work.iterdir()):
            work.rmdir()
        lock.release()


def clear(work: Path) -> None:
    r"""Removes the results of an interrupted build.

    Args:
        work (Path): The working folder.
    """
    for part in work.iterdir():
        shutil.rmtree(part)


def once(
    work: Path, stage: str, run: Callable[[], Outcome], world: World, shared: bool = False
) -> Outcome:
    r"""Runs a stage in one process, unless an interrupted build has finished it,
    and returns its outcome in all processes.

    Args:
        work (Path): The working folder of the build, which all processes share.
        stage (str): The name of the stage.
        run (callable): Runs the stage.
        world (World): The processes.
        shared (bool, optional): Whether all processes run the stage together.
            The first one writes its outcome. (default: :obj:`False`)
    """
    folder, outcome = work / stage, None
    if shared and world.by_first(lambda: not _is_whole(folder)):
        outcome = run()
    with world.together(stage):
        if world.is_first and not _is_whole(folder):
            tensors, facts = run() if outcome is None else outcome
            with atomic_folder(folder) as draft:
                write_tensors(draft / TENSORS, tensors)
                write_sealed_json(draft / FACTS, {'facts': facts}, [TENSORS])
    with world.together(f"read '{folder}', which must be on storage that all processes share"):
        return _read(folder)


@contextmanager
def report_full_disk(work: Path) -> Iterator[None]:
    r"""If the disk is full, raises an error that lists the stages that are kept.

    Args:
        work (Path): The working folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        done = sorted(p.name for p in work.iterdir() if p.is_dir()) if work.is_dir() else []
        kept = f"{', '.join(done)} are kept in '{work}'" if done else 'nothing is kept'
        raise NotWritableError(
            f"Cannot write to '{work.parent}': {error.strerror}. Of the stages of this build, "
            f'{kept}: free disk space and construct the dataset again to resume'
        ) from error


def _read(folder: Path) -> Outcome:
    facts, tensors = read_sealed_json(folder / FACTS), read_tensors(folder / TENSORS)
    if not isinstance(facts.get('facts'), dict):
        raise CorruptFileError(f"'{folder}' does not hold the outcome of a stage")
    return tensors, facts['facts']


def _is_whole(folder: Path) -> bool:
    try:
        _read(folder)
    except CorruptFileError:
        return False
    return True


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
