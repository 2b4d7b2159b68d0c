r"""Checksums of large files, block by block, which several threads compute at once."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils.untrusted import open_regular

BLOCK_BYTES = 1 << 26  # a larger file has one checksum per block of this size
READ_BYTES = 1 << 20
MAX_THREADS = 8

Checksum = str | dict[str, Any]


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
        return _checksum(path)
    threads = num_threads or min(MAX_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(min(threads, len(starts))) as pool:
        found = list(pool.map(lambda start: _checksum(path, start, BLOCK_BYTES), starts))
    return {'block_bytes': BLOCK_BYTES, 'sha256': found}


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
    found = _checksum(path) if isinstance(expected, str) else file_checksum(path, num_threads)
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


def _checksum(path: Path, start: int = 0, size: int | None = None) -> str:
    r"""The checksum of a file from a byte on, or of that many bytes of it."""
    digest, left = hashlib.sha256(), size
    with open_regular(path) as file:
        file.seek(start)
        while part := file.read(READ_BYTES if left is None else min(READ_BYTES, left)):
            digest.update(part)
            left = None if left is None else left - len(part)
    return digest.hexdigest()
