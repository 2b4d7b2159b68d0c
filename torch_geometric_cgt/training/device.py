r"""The one place where a device is chosen, and its state of randomness."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

import torch

from torch_geometric_cgt.errors import DistributedError


def resolve_device(device: str | torch.device = 'auto') -> torch.device:
    r"""Turns :obj:`"auto"` into the accelerator of this machine, or the CPU.

    Under :obj:`torchrun`, each process of a machine takes the accelerator
    that :obj:`$LOCAL_RANK` names, unless a number is given.

    Args:
        device (str or torch.device, optional): :obj:`"auto"` or anything that
            :class:`torch.device` takes. (default: :obj:`"auto"`)
    """
    if device != 'auto':
        chosen = torch.device(device)
    elif torch.accelerator.is_available():
        chosen = torch.accelerator.current_accelerator() or torch.device('cpu')
    else:
        chosen = torch.device('cpu')
    if chosen.type == 'cpu' or chosen.index is not None or 'LOCAL_RANK' not in os.environ:
        return chosen
    index, count = int(os.environ['LOCAL_RANK']), torch.accelerator.device_count()
    if index >= count:
        raise DistributedError(
            f'Process {index} of this machine has no device of its own (there are {count}): '
            f"start at most {count} processes per machine, or pass device='cpu'"
        )
    return torch.device(chosen.type, index)


def fork_rng(device: torch.device) -> AbstractContextManager[None]:
    r"""Leaves the global randomness as it was when the block ends."""
    if device.type in ('cpu', 'mps'):  # mps has one state, and no number for it
        return torch.random.fork_rng(devices=[])
    index = torch.accelerator.current_device_index() if device.index is None else device.index
    return torch.random.fork_rng(devices=[index], device_type=device.type)


def seed_global(seed: int, device: torch.device) -> None:
    r"""Seeds what dropout draws from; :meth:`torch.manual_seed` asks every
    backend there is, which takes longer than a small layer.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != 'cpu':
        torch.get_device_module(device).manual_seed(seed)
