r"""Available memory, and a check before large allocations."""

from __future__ import annotations

import psutil
import torch

from torch_geometric_cgt.errors import NotEnoughMemoryError


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
