r"""Atomic writes, checksums and tensor files without pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError, NotWritableError
from torch_geometric_cgt.utils.block_checksums import check_files, file_checksums
from torch_geometric_cgt.utils.limits import MAX_OWN_JSON_BYTES, MAX_OWN_JSON_ITEMS
from torch_geometric_cgt.utils.untrusted import DTYPES, parse_json, read_bounded

BLOCK_ELEMENTS = 1 << 22  # elements written at a time
MAP_ABOVE = 1 << 28  # bytes; larger files are memory-mapped, not copied


def require_writable(folder: Path) -> None:
    r"""Creates a folder, or raises :class:`NotWritableError` with the reason."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise NotWritableError(f"Cannot write to '{folder}': {error.strerror or error}") from error


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    r"""Yields an empty folder. It replaces :obj:`folder` if the block succeeds,
    and is deleted if the block raises an error.
    """
    require_writable(folder.parent)
    draft = Path(tempfile.mkdtemp(prefix=f'.{folder.name}-', dir=folder.parent))
    try:
        yield draft
        for path in draft.iterdir():
            _flush(path)
        _flush(draft)
        old = draft.with_name(draft.name + '-old')
        if folder.exists():
            os.rename(folder, old)
        os.rename(draft, folder)
        shutil.rmtree(old, ignore_errors=True)
        _flush(folder.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    r"""Writes a text file atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    r"""Writes a file atomically."""
    require_writable(path.parent)
    handle, draft = tempfile.mkstemp(prefix=f'.{path.name}-', dir=path.parent)
    try:
        with open(handle, 'wb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def append_line(path: Path, line: str) -> None:
    r"""Appends a line to a file in one call, so that several processes can share it.
    A line that a killed process left incomplete stays a line of its own.

    Args:
        path (Path): The file.
        line (str): The line, without its end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b'\n'
        os.write(file, (('\n' if torn else '') + line + '\n').encode())
    finally:
        os.close(file)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    r"""Writes tensors in the safetensors format, one block at a time. Tensors
    that are memory-mapped from a file may be larger than the memory.
    """
    header, offset = {}, 0
    for name, value in tensors.items():
        size = value.numel() * value.element_size()
        header[name] = {
            'dtype': DTYPES[value.dtype],
            'shape': list(value.shape),
            'data_offsets': [offset, offset + size],
        }
        offset += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)  # the data begin at a multiple of eight bytes
    with open(path, 'wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text)
        for value in tensors.values():
            for block in value.detach().reshape(-1).split(BLOCK_ELEMENTS):
                file.write(block.cpu().contiguous().view(torch.uint8).numpy().data)


def read_tensors(path: Path) -> dict[str, Tensor]:
    r"""Reads a safetensors file. The format cannot contain code.

    Only large files are memory-mapped: if another program truncates a mapped
    file later, this process crashes.
    """
    try:
        if path.stat().st_size > MAP_ABOVE:
            return safetensors.torch.load_file(path)
        return safetensors.torch.load(path.read_bytes())
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CorruptFileError(f"'{path}' is not a readable tensor file: {error}") from error


def write_sealed_json(path: Path, content: dict[str, Any], files: list[str]) -> None:
    r"""Writes a JSON file with a checksum of itself and of other files in its folder. Large files
    have one checksum per block.

    Args:
        path (Path): The file to write.
        content (dict): The content.
        files (list[str]): The names of the files in the same folder whose
            checksums are included.
    """
    found = file_checksums([path.with_name(name) for name in files])
    sealed = {**content, 'files': dict(zip(files, found, strict=True))}
    sealed['checksum'] = _checksum(sealed)
    write_text(path, json.dumps(sealed, indent=2) + '\n')


def read_sealed_json(
    path: Path,
    max_bytes: int = MAX_OWN_JSON_BYTES,
    max_items: int = MAX_OWN_JSON_ITEMS,
    check_files: bool = True,
) -> dict[str, Any]:
    r"""Reads a file of :meth:`write_sealed_json` and verifies its checksums.

    Args:
        path (Path): The file.
        max_bytes (int, optional): The largest allowed size of the file.
        max_items (int, optional): The largest allowed number of values.
        check_files (bool, optional): Whether to verify the checksums of the
            files that it names, see :meth:`check_sealed_files`.
            (default: :obj:`True`)
    """
    content = parse_json(read_bounded(path, max_bytes), path, max_items)
    if not isinstance(content, dict) or not isinstance(content.get('files'), dict):
        raise CorruptFileError(f"'{path}' does not list the files it belongs to")
    if content.get('checksum') != _checksum({**content, 'checksum': None}):
        raise CorruptFileError(f"'{path}' was altered: its checksum does not match")
    if check_files:
        check_sealed_files(path, content['files'])
    return content


def check_sealed_files(path: Path, files: dict[str, Any], num_threads: int | None = None) -> None:
    r"""Verifies the checksums of files. Raises :class:`CorruptFileError`.

    Args:
        path (Path): The file that states the checksums. The other files are in
            its folder.
        files (dict): The name and the checksum of each file.
        num_threads (int, optional): The number of threads that read files and
            the blocks of large files. (default: one per processor core)
    """
    for name in files:
        if not name or Path(name).name != name:
            raise CorruptFileError(f"'{path}' names a file outside of its folder ({name!r:.40})")
    check_files({path.with_name(name): expected for name, expected in files.items()}, num_threads)


def _checksum(content: dict[str, Any]) -> str:
    unsealed = {key: value for key, value in content.items() if key != 'checksum'}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode()).hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
