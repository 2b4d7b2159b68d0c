r"""What a build that is under way keeps, so that it can go on after a kill."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torch_geometric_cgt.data.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    require_writable,
    write_sealed_json,
    write_tensors,
)
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.training import World
from torch_geometric_cgt.transforms.quantize import Clustering

try:
    import fcntl
except ImportError:  # not on this platform: two builds of one dataset are on their own
    fcntl = None  # type: ignore[assignment]

QUANTIZED, TENSORS, CARD = 'quantized', 'clusters.safetensors', 'clusters.json'


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


def quantize_once(work: Path, quantize: Callable[[], Clustering], world: World) -> Clustering:
    r"""Quantizes in one process, unless an interrupted build did it before,
    and gives the result to all processes.

    Args:
        work (Path): The working folder of the build, seen by all processes.
        quantize (callable): What quantizes.
        world (World): The processes.
    """
    folder = work / QUANTIZED
    with world.together('quantize'):
        if world.is_first and not _is_whole(folder):
            write_clustering(folder, quantize())
    with world.together(f"read '{folder}', which must be on storage that all processes see"):
        return read_clustering(folder)


def write_clustering(folder: Path, clustering: Clustering) -> None:
    r"""Writes clusters and codebook, all of it or nothing."""
    tensors = {'cluster': clustering.cluster, 'codebook': clustering.codebook}
    with atomic_folder(folder) as draft:
        write_tensors(draft / TENSORS, tensors)
        write_sealed_json(draft / CARD, {'task_weight': clustering.task_weight}, [TENSORS])


def read_clustering(folder: Path) -> Clustering:
    r"""Reads what :meth:`write_clustering` wrote."""
    card, tensors = read_sealed_json(folder / CARD), read_tensors(folder / TENSORS)
    try:
        return Clustering(tensors['cluster'], tensors['codebook'], card['task_weight'])
    except KeyError as error:
        raise CorruptFileError(f"'{folder}' does not hold a clustering: no {error}") from error


def _is_whole(folder: Path) -> bool:
    try:
        read_clustering(folder)
    except CorruptFileError:
        return False
    return True
