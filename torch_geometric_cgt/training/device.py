r"""The one place where a device is chosen."""

from __future__ import annotations

import torch


def resolve_device(device: str | torch.device = 'auto') -> torch.device:
    r"""Turns :obj:`"auto"` into the accelerator of this machine, or the CPU.

    Args:
        device (str or torch.device, optional): :obj:`"auto"` or anything that
            :class:`torch.device` takes. (default: :obj:`"auto"`)
    """
    if device != 'auto':
        return torch.device(device)
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator() or torch.device('cpu')
    return torch.device('cpu')
