r"""The rows of a tensor that lies in several files, read when they are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map

from torch_geometric_cgt.utils.checks import check_memory

READ_ONLY = "Rows that lie in several files cannot be changed: change a copy, 'load()'"
aten = torch.ops.aten


class ShardedRows(Tensor):
    r"""A tensor whose rows lie in several safetensors files, the same number in
    each of them but the last one.

    It has a shape and a type, but no storage. Rows and columns that are selected by
    an index, a slice or a mask are read from the memory-mapped files, and are plain
    tensors. All other operations read the whole tensor, if there is
    enough memory. It cannot be written to. A process that receives it, such as a
    worker of a loader, opens the files itself.

    Args:
        paths (list[Path]): The files, in the order of their rows.
        name (str): The name of the tensor in each file.
        shape (tuple[int, ...]): The shape of all rows.
        dtype (torch.dtype): The type.
        rows_per_shard (int): The number of rows of each file but the last one.
    """

    paths: tuple[Path, ...]
    name_in_file: str
    rows_per_shard: int
    _open: dict[int, Tensor]  # the files that were used

    @staticmethod
    def __new__(
        cls,
        paths: Sequence[Path],
        name: str,
        shape: Sequence[int],
        dtype: torch.dtype,
        rows_per_shard: int,
    ) -> ShardedRows:
        rows = Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=dtype, device=torch.device('cpu')
        )
        rows.paths, rows.name_in_file, rows.rows_per_shard = tuple(paths), name, rows_per_shard
        rows._open = {}
        return rows

    def shard(self, number: int) -> Tensor:
        r"""The rows of one file, memory-mapped.

        Args:
            number (int): The number of the file.
        """
        if number not in self._open:
            path = self.paths[number].absolute()
            self._open[number] = safetensors.torch.load_file(path)[self.name_in_file]
        return self._open[number]

    def load(self) -> Tensor:
        r"""All rows, in memory."""
        check_memory(
            math.prod(self.shape) * self.dtype.itemsize,
            f"'{self.name_in_file}' of {len(self.paths)} files as one tensor",
            'select some of its rows',
        )
        return torch.cat([self.shard(number) for number in range(len(self.paths))])

    def numpy(self, *, force: bool = False) -> NDArray:
        r"""All rows, in memory, as an array."""
        return self.load().numpy(force=force)

    def spans(self) -> list[slice]:
        r"""The rows of each file."""
        starts = range(0, self.size(0), self.rows_per_shard)
        return [slice(start, min(start + self.rows_per_shard, self.size(0))) for start in starts]

    def _again(self) -> ShardedRows:
        r"""Another tensor of the same open files."""
        rows = ShardedRows(*self.__reduce_ex__(0)[1])
        rows._open = self._open
        return rows

    def _take(self, index: Tensor) -> Tensor:
        r"""The rows with the given numbers."""
        index = torch.where(index < 0, index + self.size(0), index)
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < self.size(0):
            raise IndexError(f'A row lies outside of the {self.size(0):,} rows')
        out = torch.empty((*index.shape, *self.shape[1:]), dtype=self.dtype)
        number = index // self.rows_per_shard
        for shard in number.unique().tolist():
            here = number == shard
            out[here] = self.shard(shard)[index[here] - shard * self.rows_per_shard]
        return out

    def _slice(self, start: int | None, stop: int | None, step: int) -> Tensor:
        start, stop, step = slice(start, stop, step).indices(self.size(0))
        if (start, stop, step) == (0, self.size(0), 1):
            return self._again()
        parts = []
        while start < stop:
            shard = start // self.rows_per_shard
            first = shard * self.rows_per_shard
            end = min(stop, first + self.rows_per_shard)
            parts.append(self.shard(shard)[start - first : end - first : step])
            start += step * parts[-1].size(0)
        if len(parts) == 1:
            return parts[0]
        return torch.cat([self.shard(0)[:0], *parts])

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in READERS and isinstance(args[0], ShardedRows):
            found = READERS[func](*args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        names = [argument.name for argument in func._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        for argument in func._schema.arguments:
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            if is_written and isinstance(given.get(argument.name), ShardedRows):
                raise TypeError(READ_ONLY)

        def loaded(value: Any) -> Any:
            return value.load() if isinstance(value, ShardedRows) else value

        return func(*tree_map(loaded, args), **tree_map(loaded, kwargs or {}))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(READ_ONLY)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        shape = tuple(self.shape)
        return ShardedRows, (
            self.paths,
            self.name_in_file,
            shape,
            self.dtype,
            self.rows_per_shard,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardedRows:
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return (
            f'ShardedRows({self.name_in_file}, shape={list(self.shape)}, dtype={self.dtype}, '
            f'files={len(self.paths)})'
        )


def _by_slice(
    rows: ShardedRows, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    if dim == 0:
        return rows._slice(start, end, step)
    return _each(rows, lambda shard: aten.slice(shard, dim, start, end, step))


def _by_select(rows: ShardedRows, dim: int, index: int) -> Tensor:
    if dim == 0:
        return rows._take(torch.tensor(index))
    return _each(rows, lambda shard: shard.select(dim, index))


def _by_index(rows: ShardedRows, indices: list[Tensor | None]) -> Any:
    index, *others = indices
    if index is None or isinstance(index, ShardedRows) or any(o is not None for o in others):
        return NotImplemented
    if index.dtype in (torch.bool, torch.uint8):
        if index.shape != rows.shape[:1]:
            return NotImplemented
        index = index.nonzero().view(-1)
    return rows._take(index.long())


def _by_index_select(rows: ShardedRows, dim: int, index: Tensor) -> Any:
    return rows._take(index.long()) if dim == 0 else NotImplemented


def _each(rows: ShardedRows, read: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Reads a part of each row, file by file."""
    return torch.cat([read(rows.shard(number)) for number in range(len(rows.paths))])


READERS: dict[Any, Callable[..., Any]] = {
    aten.slice.Tensor: _by_slice,
    aten.select.int: _by_select,
    aten.index.Tensor: _by_index,
    aten.index_select.default: _by_index_select,
    aten.detach.default: ShardedRows._again,
    aten.alias.default: ShardedRows._again,
}
