r"""What a build that is under way keeps, so that it can go on after a kill."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.training import World
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    require_writable,
    write_sealed_json,
    write_tensors,
)

try:
    import fcntl
except ImportError:  # not on this platform: two builds of one dataset are on their own
    fcntl = None  # type: ignore[assignment]

TENSORS, FACTS = 'tensors.safetensors', 'facts.json'

Outcome = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and small facts


@contextmanager
def exclusive(work: Path) -> Iterator[None]:
    r"""Holds a working folder for one build at a time. Another build of the
    same dataset waits; a build that is killed lets go of the folder.
    """
    require_writable(work)
    handle = os.open(work, os.O_RDONLY) if fcntl else -1
    try:
        if fcntl:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                warnings.warn(
                    f"Another process builds the same dataset in '{work}': waiting for it",
                    stacklevel=2,
                )
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if fcntl:
            os.close(handle)
        with suppress(OSError):
            work.rmdir()  # if nothing is in it


def once(work: Path, phase: str, run: Callable[[], Outcome], world: World) -> Outcome:
    r"""Runs a phase in one process, unless an interrupted build finished it
    before, and gives its outcome to all processes.

    Args:
        work (Path): The working folder of the build, seen by all processes.
        phase (str): The name of the phase.
        run (callable): What runs it.
        world (World): The processes.
    """
    folder = work / phase
    with world.together(phase):
        if world.is_first and not _is_whole(folder):
            tensors, facts = run()
            with atomic_folder(folder) as draft:
                write_tensors(draft / TENSORS, tensors)
                write_sealed_json(draft / FACTS, {'facts': facts}, [TENSORS])
    with world.together(f"read '{folder}', which must be on storage that all processes see"):
        return _read(folder)


def _read(folder: Path) -> Outcome:
    facts, tensors = read_sealed_json(folder / FACTS), read_tensors(folder / TENSORS)
    if not isinstance(facts.get('facts'), dict):
        raise CorruptFileError(f"'{folder}' does not hold the outcome of a phase")
    return tensors, facts['facts']


def _is_whole(folder: Path) -> bool:
    try:
        _read(folder)
    except CorruptFileError:
        return False
    return True
