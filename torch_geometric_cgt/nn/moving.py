r"""Records of tensors that go to a device together."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

Record = TypeVar('Record', bound='Movable')


class Movable:
    r"""A frozen dataclass whose tensors, also in records and tuples within,
    move to a device in one call.
    """

    def to(self: Record, device: torch.device | str) -> Record:
        r"""The same record on another device."""
        values = {f.name: _move(getattr(self, f.name), device) for f in fields(self)}  # type: ignore[arg-type]
        return replace(self, **values)  # type: ignore[type-var]


def _move(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Movable):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(_move(item, device) for item in value)
    return value
