r"""Checksums of large files, block by block, which several threads compute at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils.untrusted import open_regular

BLOCK_BYTES = 1 << 26  # a larger file has one checksum per block of this size
READ_BYTES = 1 << 20
MAX_THREADS = 8

Checksum = str | dict[str, Any]
T = TypeVar('T')


def file_checksum(path: Path, num_threads: int | None = None) -> Checksum:
    r"""The SHA-256 checksum of a regular file, or those of its blocks if it has
    more than :obj:`BLOCK_BYTES` bytes.

    Args:
        path (Path): The file.
        num_threads (int, optional): The number of threads, by default one per
            processor core and at most eight. The result does not depend on it.
            (default: :obj:`None`)
    """
    with open_regular(path) as file:
        starts = range(0, os.fstat(file.fileno()).st_size, BLOCK_BYTES)
    if len(starts) < 2:
        return sha256(path)
    with ThreadPoolExecutor(num_workers(len(starts), num_threads)) as pool:
        found = list(pool.map(lambda start: sha256(path, start, BLOCK_BYTES), starts))
    return {'block_bytes': BLOCK_BYTES, 'sha256': found}


def num_workers(num_tasks: int, num_threads: int | None = None) -> int:
    r"""The number of threads for so many tasks.

    Args:
        num_tasks (int): The number of tasks.
        num_threads (int, optional): The largest number of threads, by default one
            per processor core and at most eight. (default: :obj:`None`)
    """
    return min(num_threads or min(MAX_THREADS, os.cpu_count() or 1), max(1, num_tasks))


def file_checksums(paths: Sequence[Path], num_threads: int | None = None) -> list[Checksum]:
    r"""The checksums of several files, see :meth:`file_checksum`. Threads read
    several files at once.

    Args:
        paths (list[Path]): The files.
        num_threads (int, optional): See :meth:`file_checksum`.
            (default: :obj:`None`)
    """
    return _for_each(file_checksum, paths, num_threads)


def check_files(expected: Mapping[Path, Any], num_threads: int | None = None) -> None:
    r"""Raises :class:`CorruptFileError` if one of several files does not have the
    expected checksum. Threads read several files at once. The error is that of the
    first such file, and says so if the file has the content of another one.

    Args:
        expected (dict): The checksum of each file.
        num_threads (int, optional): See :meth:`file_checksum`.
            (default: :obj:`None`)
    """

    def wrong(path: Path, num_threads: int | None) -> CorruptFileError | None:
        try:
            check_file(path, expected[path], num_threads)
        except CorruptFileError as error:
            return error
        return None

    paths = list(expected)
    for path, error in zip(paths, _for_each(wrong, paths, num_threads), strict=True):
        if error is None:
            continue
        if path.exists():
            found = file_checksum(path, num_threads)
            for other, checksum in expected.items():
                if checksum == found:
                    raise CorruptFileError(
                        f"'{path}' has the content of '{other.name}': files were swapped or copied"
                    ) from error
        raise error


def _for_each(
    read: Callable[[Path, int | None], T], paths: Sequence[Path], num_threads: int | None
) -> list[T]:
    r"""Calls a function with each file and the number of threads for its blocks."""
    threads = num_workers(len(paths), num_threads)
    inner = num_threads if threads == 1 else max(1, num_workers(MAX_THREADS) // threads)
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda path: read(path, inner), paths))


def check_file(path: Path, expected: Any, num_threads: int | None = None) -> None:
    r"""Raises :class:`CorruptFileError` if a file does not have the expected
    checksum. The error names the first block that differs.

    Args:
        path (Path): The file.
        expected (str or dict): The checksum, as a stranger may have stated it.
            Releases of earlier versions state one for the whole file.
        num_threads (int, optional): See :meth:`file_checksum`.
            (default: :obj:`None`)
    """
    found = sha256(path) if isinstance(expected, str) else file_checksum(path, num_threads)
    if found == expected:
        return
    altered = f"'{path}' is truncated or was altered"
    if isinstance(found, dict) and isinstance(expected, dict):
        stated = expected.get('sha256')
        if isinstance(stated, list) and len(stated) == len(found['sha256']):
            pairs = zip(found['sha256'], stated, strict=True)
            bad = [block for block, (own, other) in enumerate(pairs) if own != other]
            if bad:
                altered += (
                    f': {len(bad)} of {len(stated)} blocks differ, the first of them at byte '
                    f'{bad[0] * BLOCK_BYTES:,}'
                )
    raise CorruptFileError(altered)


def sha256(path: Path, start: int = 0, size: int | None = None) -> str:
    r"""The SHA-256 checksum of a regular file, or of a part of it.

    Args:
        path (Path): The file.
        start (int, optional): The first byte of the part. (default: :obj:`0`)
        size (int, optional): The number of its bytes, by default all up to the
            end of the file. (default: :obj:`None`)
    """
    digest, left = hashlib.sha256(), size
    with open_regular(path) as file:
        file.seek(start)
        while part := file.read(READ_BYTES if left is None else min(READ_BYTES, left)):
            digest.update(part)
            left = None if left is None else left - len(part)
    return digest.hexdigest()
