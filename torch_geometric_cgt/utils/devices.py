r"""Copies between the host and a device."""

from __future__ import annotations

import torch
from torch import Tensor

PINNED_FOR = ('cuda', 'xpu')  # devices that copy from pinned memory while the host goes on


def to_device(value: Tensor, device: torch.device | str) -> Tensor:
    r"""Copies a tensor to a device. The host does not wait for copies to a GPU:
    the tensor is pinned first, without which the copy would not be
    asynchronous. Copies from a device to the host are complete on return.

    Args:
        value (torch.Tensor): The tensor.
        device (torch.device or str): The device.
    """
    device = torch.device(device)
    if value.device.type != 'cpu':
        return value.to(device)
    if device.type in PINNED_FOR:
        value = value.pin_memory()
    return value.to(device, non_blocking=True)
