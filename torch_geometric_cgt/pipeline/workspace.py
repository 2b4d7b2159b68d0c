r"""The working folder of a build: its lock, and the results of finished stages."""

from __future__ import annotations

import errno
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError, NotWritableError
from torch_geometric_cgt.training import World
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    require_writable,
    write_sealed_json,
    write_tensors,
)

TENSORS, FACTS, LOCKS = 'tensors.safetensors', 'facts.json', '.locks'
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

Outcome = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and facts for a JSON file


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
        warnings.warn(
            f"Another process is building the same dataset in '{work}': waiting for it",
            stacklevel=3,
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


def once(work: Path, stage: str, run: Callable[[], Outcome], world: World) -> Outcome:
    r"""Runs a stage in one process, unless an interrupted build has finished it,
    and returns its outcome in all processes.

    Args:
        work (Path): The working folder of the build, which all processes share.
        stage (str): The name of the stage.
        run (callable): Runs the stage.
        world (World): The processes.
    """
    folder = work / stage
    with world.together(stage):
        if world.is_first and not _is_whole(folder):
            tensors, facts = run()
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
