r"""Limits of time and memory of one run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import psutil

from torch_geometric_cgt.errors import OutOfMemory, OutOfTime


@dataclass(frozen=True)
class Limits:
    r"""The time and the memory that a run may use. The clock starts when the
    object is created. A long computation calls :meth:`check` in every step.

    Args:
        seconds (float, optional): The largest time. (default: :obj:`None`)
        bytes (int, optional): The largest memory of the process, as the operating
            system counts it. (default: :obj:`None`)
    """

    seconds: float | None = None
    bytes: int | None = None
    started: float = field(default_factory=time.monotonic, compare=False)

    def __post_init__(self) -> None:
        for name in ('seconds', 'bytes'):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"'{name}' must be positive (got {value})")

    @property
    def elapsed(self) -> float:
        r"""The time since the start, in seconds."""
        return time.monotonic() - self.started

    def check(self) -> None:
        r"""Raises :class:`~torch_geometric_cgt.errors.OutOfTime` or
        :class:`~torch_geometric_cgt.errors.OutOfMemory` if a limit is exceeded.
        """
        if self.seconds is not None and self.elapsed > self.seconds:
            raise OutOfTime(f'The run did not finish within {self.seconds:g} seconds')
        if self.bytes is not None and (used := psutil.Process().memory_info().rss) > self.bytes:
            raise OutOfMemory(
                f'The run uses {used / 2**30:.2f} GiB of memory, more than the limit of '
                f'{self.bytes / 2**30:.2f} GiB'
            )


def is_out_of_memory(error: BaseException) -> bool:
    r"""Whether an error says that memory cannot be allocated, on any device.

    Args:
        error (BaseException): The error.
    """
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    words = ('out of memory', "can't allocate memory", 'not enough memory')
    return isinstance(error, RuntimeError) and any(word in text for word in words)
