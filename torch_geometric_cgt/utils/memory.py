r"""How much memory there is, and a refusal before more than that is allocated."""

import os

import torch

from torch_geometric_cgt.errors import NotEnoughMemoryError


def available_memory(device: str | torch.device = 'cpu') -> int | None:
    r"""Returns the free memory of :obj:`device` in bytes, or :obj:`None` if it cannot be known.

    Args:
        device (str or torch.device, optional): The device to ask about. (default: :obj:`"cpu"`)
    """
    device = torch.device(device)
    if device.type == 'cuda':
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != 'cpu':
        return None

    free = _meminfo_available()
    if free is None:
        try:
            free = os.sysconf('SC_AVPHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
        except (AttributeError, ValueError, OSError):
            return None
    limit = _cgroup_available()
    return free if limit is None else min(free, limit)


def check_memory(needed: int, what: str, hint: str, device: str | torch.device = 'cpu') -> None:
    r"""Raises :class:`NotEnoughMemoryError` if :obj:`needed` bytes are more than there are.

    Args:
        needed (int): The estimated peak of what is about to be allocated, in bytes.
        what (str): What needs the memory, for the message.
        hint (str): Which argument to change, for the message.
        device (str or torch.device, optional): Where it is allocated. (default: :obj:`"cpu"`)
    """
    free = available_memory(device)
    if free is not None and needed > free:
        raise NotEnoughMemoryError(
            f"{what} needs about {needed / 2**30:.1f} GiB on '{device}', "
            f'but only {free / 2**30:.1f} GiB are available: {hint}'
        )


def _meminfo_available() -> int | None:
    try:
        with open('/proc/meminfo') as f:
            for line in f:
                if line.startswith('MemAvailable:'):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _cgroup_available() -> int | None:
    # Containers see the memory of the whole machine in /proc; their own limit is here.
    try:
        with open('/sys/fs/cgroup/memory.max') as f:
            limit = f.read().strip()
        with open('/sys/fs/cgroup/memory.current') as f:
            used = int(f.read())
        return None if limit == 'max' else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return None
