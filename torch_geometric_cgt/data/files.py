r"""Files that are whole or not there: atomic folders, checksums, no pickle."""

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
from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError, NotWritableError


def require_writable(folder: Path) -> None:
    r"""Creates a folder, or says why nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise NotWritableError(f"Cannot write to '{folder}': {error.strerror or error}") from error


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    r"""Yields an empty folder that takes the place of :obj:`folder` when the
    block ends well, and vanishes when it does not.
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
    r"""Writes a file that appears whole or not at all."""
    require_writable(path.parent)
    handle, draft = tempfile.mkstemp(prefix=f'.{path.name}-', dir=path.parent)
    try:
        with open(handle, 'w', encoding='utf-8') as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    r"""Writes tensors in the safetensors format."""
    safetensors.torch.save_file({k: v.cpu().contiguous() for k, v in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    r"""Reads a safetensors file; nothing in it can run.

    The tensors are copies: a mapped file that somebody else shortens later
    would take the process down.
    """
    try:
        return safetensors.torch.load(path.read_bytes())
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CorruptFileError(f"'{path}' is not a readable tensor file: {error}") from error


def write_sealed_json(path: Path, content: dict[str, Any], files: list[str]) -> None:
    r"""Writes a JSON file that vouches for itself and for files beside it.

    Args:
        path (Path): Where to write.
        content (dict): What to write.
        files (list[str]): The names of the files in the same folder whose
            checksums are written along.
    """
    sealed = {**content, 'files': {name: sha256(path.with_name(name)) for name in files}}
    sealed['checksum'] = _checksum(sealed)
    write_text(path, json.dumps(sealed, indent=2) + '\n')


def read_sealed_json(path: Path) -> dict[str, Any]:
    r"""Reads what :meth:`write_sealed_json` wrote, and checks all of it."""
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise CorruptFileError(f"'{path}' cannot be read: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get('files'), dict):
        raise CorruptFileError(f"'{path}' does not list the files it belongs to")
    if content.get('checksum') != _checksum({**content, 'checksum': None}):
        raise CorruptFileError(f"'{path}' was altered: its checksum does not match")
    for name, expected in content['files'].items():
        if Path(name).name != name:
            raise CorruptFileError(f"'{path}' names a file outside of its folder ('{name}')")
        if not path.with_name(name).is_file():
            raise CorruptFileError(f"'{path.with_name(name)}' is missing")
        if sha256(path.with_name(name)) != expected:
            raise CorruptFileError(f"'{path.with_name(name)}' is truncated or was altered")
    return content


def sha256(path: Path) -> str:
    r"""The checksum of a file."""
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _checksum(content: dict[str, Any]) -> str:
    bare = {key: value for key, value in content.items() if key != 'checksum'}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
