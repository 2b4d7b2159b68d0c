r"""Reads files that a stranger may have written: regular files, bounded JSON, checked tensors."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils.limits import (
    MAX_DIGITS,
    MAX_HEADER_BYTES,
    MAX_JSON_DEPTH,
    MAX_JSON_ITEMS,
)

DTYPES = {  # type names of the safetensors format
    torch.bool: 'BOOL',
    torch.uint8: 'U8',
    torch.int8: 'I8',
    torch.int16: 'I16',
    torch.int32: 'I32',
    torch.int64: 'I64',
    torch.bfloat16: 'BF16',
    torch.float16: 'F16',
    torch.float32: 'F32',
    torch.float64: 'F64',
}
OVERRIDE = "if you trust the sender, allow more by 'max_bytes'"
SIZES = {name: dtype.itemsize for dtype, name in DTYPES.items()}  # bytes of one element


@dataclass(frozen=True)
class TensorSpec:
    r"""What a tensor of a file must be.

    Args:
        dtypes (tuple[str, ...]): The allowed types, by their safetensors names.
        shape (tuple[int, ...]): The shape.
    """

    dtypes: tuple[str, ...]
    shape: tuple[int, ...]


def open_regular(path: Path, max_bytes: int | None = None) -> BinaryIO:
    r"""Opens a regular file for reading. Links, folders, devices and named pipes
    are refused without waiting for their content.

    Args:
        path (Path): The file.
        max_bytes (int, optional): The largest allowed size.
            (default: :obj:`None`)
    """
    flags = os.O_RDONLY | getattr(os, 'O_NOFOLLOW', 0) | getattr(os, 'O_NONBLOCK', 0)
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            raise CorruptFileError(f"'{path}' is not a regular file (got {_kind(kind)})")
        file = open(os.open(path, flags | getattr(os, 'O_BINARY', 0)), 'rb')
    except FileNotFoundError as error:
        raise CorruptFileError(f"'{path}' is missing") from error
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise CorruptFileError(f"'{path}' cannot be read: {error}") from error
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):  # it was replaced in the meantime
        file.close()
        raise CorruptFileError(f"'{path}' is not a regular file (got {_kind(found.st_mode)})")
    if max_bytes is not None and found.st_size > max_bytes:
        file.close()
        raise CorruptFileError(
            f"'{path}' has {found.st_size:,} bytes, but at most {max_bytes:,} are allowed"
        )
    return file


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: 'a symbolic link',
        stat.S_IFDIR: 'a folder',
        stat.S_IFIFO: 'a named pipe',
        stat.S_IFSOCK: 'a socket',
    }
    return kinds.get(stat.S_IFMT(mode), 'a device')


def read_bounded(path: Path, max_bytes: int) -> bytes:
    r"""Reads a regular file of at most :obj:`max_bytes` bytes.

    Args:
        path (Path): The file.
        max_bytes (int): The largest allowed size.
    """
    with open_regular(path, max_bytes) as file:
        return file.read(max_bytes)


def check_names(folder: Path, allowed: Iterable[str]) -> None:
    r"""Raises :class:`CorruptFileError` if a folder holds anything but regular
    files with the given names. It stops at the first other name.

    Args:
        folder (Path): The folder.
        allowed (list[str]): The names.
    """
    allowed = set(allowed)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name not in allowed:
                    raise CorruptFileError(
                        f"'{folder}' holds {entry.name!r}, which is no file of a release: "
                        f"if this is a build of your own, 'dataset.save(folder)' writes its "
                        f'release; otherwise remove it, or ask the sender for the release alone'
                    )
                if not entry.is_file(follow_symlinks=False):
                    mode = entry.stat(follow_symlinks=False).st_mode
                    raise CorruptFileError(
                        f"'{folder / entry.name}' is not a regular file (got {_kind(mode)})"
                    )
    except OSError as error:
        raise CorruptFileError(f"'{folder}' cannot be read: {error.strerror or error}") from error


def parse_json(content: bytes, path: Path, max_items: int = MAX_JSON_ITEMS) -> Any:
    r"""Parses JSON. Repeated keys, numbers that are not finite or too long, and
    too deep or too many values raise :class:`CorruptFileError`.

    Args:
        content (bytes): The text.
        path (Path): The file that the text is from, for messages.
        max_items (int, optional): The largest number of values.
            (default: :obj:`100000`)
    """
    try:
        parsed = json.loads(
            content.decode('utf-8'),
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
            parse_int=_parse_integer,
            parse_float=_parse_finite,
        )
        _check_extent(parsed, max_items)
    except RecursionError as error:
        raise CorruptFileError(f"'{path}' is nested too deeply") from error
    except ValueError as error:
        raise CorruptFileError(f"'{path}' cannot be read: {error}") from error
    return parsed


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise ValueError(f'the key {name[:MAX_DIGITS]!r} occurs twice')
        content[name] = value
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f'{name} is not a finite number')


def _parse_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f'a number has more than {MAX_DIGITS} digits')
    return int(text)


def _parse_finite(text: str) -> float:
    value = float(text) if len(text) <= MAX_DIGITS else math.nan
    if not math.isfinite(value):
        raise ValueError(f'{text[:MAX_DIGITS]} is not a finite number of usual length')
    return value


def _check_extent(parsed: Any, max_items: int) -> None:
    pending, items = [(parsed, 1)], 0
    while pending:
        value, depth = pending.pop()
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f'it is nested more than {MAX_JSON_DEPTH} levels deep')
        inner = list(value.values()) if isinstance(value, dict) else value
        items += len(inner) if isinstance(inner, list) else 0
        if items > max_items:
            raise ValueError(f'it holds more than {max_items:,} values')
        if isinstance(inner, list):
            pending.extend((one, depth + 1) for one in inner if isinstance(one, (dict, list)))


def check_tensors(path: Path, specs: Mapping[str, TensorSpec], max_bytes: int) -> None:
    r"""Compares the header and the size of a safetensors file with what it must
    hold, before any tensor is read. Raises :class:`CorruptFileError`.

    Args:
        path (Path): The file.
        specs (dict): The name, the types and the shape of each tensor. The file
            must hold these tensors and no others.
        max_bytes (int): The largest allowed size of the file.
    """
    for name, spec in specs.items():
        least = math.prod(spec.shape) * min(SIZES[dtype] for dtype in spec.dtypes)
        if least > max_bytes:
            raise CorruptFileError(
                f"'{path}' would hold '{name}' {list(spec.shape)} of {least:,} bytes or more, but "
                f'at most {max_bytes:,} are allowed: {OVERRIDE}'
            )
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise CorruptFileError(
                f"'{path}' has {size:,} bytes, but at most {max_bytes:,} are allowed: {OVERRIDE}"
            )
        length = int.from_bytes(file.read(8), 'little')
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise CorruptFileError(
                f"'{path}' is not a readable tensor file: its header would have {length:,} bytes"
            )
        header = parse_json(file.read(length), path)
    try:
        _check_header(header, specs, size - 8 - length)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(f"'{path}' is not a readable tensor file: {error}") from error


def _check_header(header: Any, specs: Mapping[str, TensorSpec], num_bytes: int) -> None:
    r"""Compares a header with the expected tensors, which must fill all bytes without gaps."""
    header.pop('__metadata__', None)
    if header.keys() != specs.keys():
        raise ValueError(f'it holds {_few(header)} instead of {_few(specs)}')
    spans = []
    for name, spec in specs.items():
        dtype, shape, span = (header[name][key] for key in ('dtype', 'shape', 'data_offsets'))
        if dtype not in spec.dtypes:
            raise ValueError(
                f"'{name}' has type {dtype!r:.40}, expected {' or '.join(spec.dtypes)}"
            )
        if not _are_integers(shape) or tuple(shape) != spec.shape:
            raise ValueError(
                f"'{name}' has shape {_few(shape)}, but the card needs {list(spec.shape)}"
            )
        if not _are_integers(span) or len(span) != 2:
            raise ValueError(f"the place of '{name}' must be two integers (got {_few(span)})")
        if span[1] - span[0] != math.prod(spec.shape) * SIZES[dtype]:
            raise ValueError(f"'{name}' has another number of bytes than its shape needs")
        spans.append((span[0], span[1], name))
    end = 0
    for begin, after, name in sorted(spans):
        if begin != end:
            raise ValueError(f"'{name}' does not begin where the tensor before it ends")
        end = after
    if end != num_bytes:
        raise ValueError(f'it is truncated or has further bytes ({num_bytes:,} instead of {end:,})')


def _are_integers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


def _few(values: Any) -> str:
    r"""The first values, for a message."""
    if not isinstance(values, (Sequence, Mapping)) or isinstance(values, str):
        return f'{values!r:.40}'
    shown = [f'{value!r:.40}' for value in list(values)[:6]]
    return f'[{", ".join(shown)}{", ..." if len(values) > 6 else ""}]'
