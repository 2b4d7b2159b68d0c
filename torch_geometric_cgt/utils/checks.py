r"""Checks before any work: positive integers, matrices, labels and the available memory."""

from __future__ import annotations

import math
from dataclasses import fields
from numbers import Integral
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block, work_dtype


def check_positive(name: str, value: Any) -> None:
    r"""Raises a :class:`ValueError` unless :obj:`value` is an integer of at least one.

    Args:
        name (str): The name of the argument, for the message.
        value (int): Its value. Booleans are rejected.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"'{name}' must be a positive integer (got {value!r})")


def check_integer(name: str, value: Any, least: int | None = 1) -> None:
    r"""Raises a :class:`ValueError` unless :obj:`value` is an integer and not too small.

    Args:
        name (str): The name of the argument, for the message.
        value (int): Its value. Booleans and text are rejected.
        least (int, optional): The smallest allowed value, :obj:`None` if there
            is none. (default: :obj:`1`)
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(
            f"'{name}' must be an integer (got {value!r} of type '{type(value).__name__}')"
        )
    if least is not None and value < least:
        raise ValueError(f"'{name}' must be at least {least} (got {value})")


def use_python_numbers(config: Any) -> None:
    r"""Replaces numbers of NumPy in the fields of a frozen dataclass by those of Python, which
    files of parameters can hold.

    Args:
        config (dataclass): The parameters.
    """
    for each in fields(config):
        if isinstance(value := getattr(config, each.name), np.generic):
            object.__setattr__(config, each.name, value.item())


def as_matrix(x: Any, name: str = 'X') -> Tensor:
    r"""Returns :obj:`x` as a two-dimensional tensor of finite numbers, without a copy if possible.

    Args:
        x (torch.Tensor or array-like): The matrix, dense or sparse.
        name (str, optional): The name of the argument, for messages. (default: :obj:`"X"`)
    """
    if not isinstance(x, Tensor):
        array = np.asarray(x)
        if array.dtype.kind not in 'fiub':
            raise ValueError(f"'{name}' must hold numbers (got dtype '{array.dtype}')")
        if array.dtype.itemsize > 8:
            array = array.astype(np.float64)  # Torch has no wider type.
        array = np.require(array, array.dtype.newbyteorder('='), ['C', 'W'])
        x = torch.from_numpy(array)
    if x.is_complex():
        raise ValueError(f"'{name}' must hold real numbers (got dtype '{x.dtype}')")
    if x.dim() != 2:
        raise ValueError(
            f"'{name}' must have two dimensions, [num_rows, num_features] "
            f'(got shape {list(x.shape)})'
        )
    if x.size(0) == 0 or x.size(1) == 0:
        raise ValueError(
            f"'{name}' must have at least one row and one column (got shape {list(x.shape)})"
        )
    x = x.detach()
    _check_finite(x, name)
    return x


def as_labels(y: Any, num_rows: int, name: str = 'y', lowest: int = -1) -> Tensor:
    r"""Returns :obj:`y` as a vector of :obj:`num_rows` integers not below :obj:`lowest`."""
    y = y.detach().cpu() if isinstance(y, Tensor) else torch.from_numpy(np.array(y))
    if y.dim() != 1 or y.numel() != num_rows:
        raise ValueError(
            f"'{name}' must be a vector with one entry for each of the {num_rows} "
            f'rows (got shape {list(y.shape)})'
        )
    if y.is_floating_point() or y.is_complex():
        raise ValueError(f"'{name}' must hold integers (got dtype '{y.dtype}')")
    y = y.long()
    if y.numel() > 0 and int(y.min()) < lowest:
        raise ValueError(f"'{name}' must not hold values below {lowest} (got {int(y.min())})")
    return y


def _check_finite(x: Tensor, name: str) -> None:
    r"""Raises an error for values that are not finite, or so large that their squares overflow."""
    largest = 0.0
    if x.layout == torch.strided:
        blocks = (block for _, _, block in row_blocks(x, rows_per_block(x.size(1))))
        for block in blocks:
            largest = max(largest, _largest(block, name))
    elif x.layout == torch.sparse_coo:
        largest = _largest(x._values(), name)
    else:
        largest = _largest(x.values(), name)
    limit = 1e140 if work_dtype(x.dtype) == torch.float64 else 1e15
    if largest > limit:
        raise ValueError(
            f"'{name}' must stay below {limit:g} in magnitude, so that squares can be "
            f'summed (got {largest:g}): scale it down'
        )


def _largest(values: Tensor, name: str) -> float:
    r"""Returns the largest magnitude, and raises an error where it is not finite."""
    if values.numel() == 0:
        return 0.0
    largest = float(values.abs().max())  # NaN and infinity propagate through the maximum.
    if not math.isfinite(largest):
        bad = int((~values.isfinite()).sum())
        raise ValueError(
            f"'{name}' must be finite (got NaN or infinity in at least {bad} "
            f'places): remove or impute those values'
        )
    return largest


def available_memory(device: str | torch.device = 'cpu') -> int | None:
    r"""Returns the free memory of :obj:`device` in bytes, or :obj:`None` if it is unknown.

    Args:
        device (str or torch.device, optional): The device. (default: :obj:`"cpu"`)
    """
    device = torch.device(device)
    if device.type == 'cuda':
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != 'cpu':
        return None

    free = int(psutil.virtual_memory().available)
    limit = _cgroup_available()
    return free if limit is None else min(free, limit)


def check_memory(needed: int, what: str, hint: str, device: str | torch.device = 'cpu') -> None:
    r"""Raises :class:`NotEnoughMemoryError` if :obj:`needed` bytes exceed the free memory.

    Args:
        needed (int): The estimated peak of the allocation, in bytes.
        what (str): What needs the memory, for the message.
        hint (str): Which argument to change, for the message.
        device (str or torch.device, optional): The device of the allocation.
            (default: :obj:`"cpu"`)
    """
    free = available_memory(device)
    if free is not None and needed > free:
        raise NotEnoughMemoryError(
            f"{what} needs about {needed / 2**30:.1f} GiB on '{device}', "
            f'but only {free / 2**30:.1f} GiB are available: {hint}'
        )


def _cgroup_available() -> int | None:
    # In a container, /proc shows the memory of the whole machine. The cgroup holds its own limit.
    try:
        with open('/sys/fs/cgroup/memory.max') as f:
            limit = f.read().strip()
        with open('/sys/fs/cgroup/memory.current') as f:
            used = int(f.read())
        return None if limit == 'max' else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return None
