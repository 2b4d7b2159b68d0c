r"""The processes that work on one fit, under ``torchrun`` or alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from torch_geometric_cgt.errors import DistributedError

TIMEOUT = timedelta(hours=12)  # one process may quantize for hours while the others wait
T = TypeVar('T')


@dataclass(frozen=True)
class World:
    r"""The processes of a run and the place of this one among them.

    Messages between processes go over the CPU, apart from gradients and what
    :meth:`sum` adds up. One process alone sends none.

    Args:
        rank (int, optional): The number of this process. (default: :obj:`0`)
        size (int, optional): The number of processes. (default: :obj:`1`)
        messages (ProcessGroup, optional): The group for messages; the
            default group if not given. (default: :obj:`None`)
    """

    rank: int = 0
    size: int = 1
    messages: dist.ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        r"""Whether this process writes files and shows progress."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        r"""Adds a tensor up over all processes, in place, on its device."""
        if self.size > 1:
            dist.all_reduce(value)
        return value

    def gather(self, value: T) -> list[T]:
        r"""The small values of all processes, known to all."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value, group=self.messages)
        return values

    def first(self, value: T) -> T:
        r"""The value of the first process, known to all."""
        return self.gather(value)[0]

    @contextmanager
    def together(self, what: str) -> Iterator[None]:
        r"""All processes leave this block together: if one fails inside it,
        all others end with an error as well, instead of waiting for it.
        """
        try:
            yield
        except Exception as error:
            self.gather(f'{type(error).__name__}: {error}')
            raise
        failed = {rank: text for rank, text in enumerate(self.gather('')) if text}
        for rank, text in failed.items():
            raise DistributedError(f'Process {rank} of {self.size} failed to {what}: {text}')


def join_world(device: torch.device | str = 'cpu') -> World:
    r"""Joins the other processes of a run that :obj:`torchrun` started, or
    returns a world of one process; that needs no environment variable.

    Every process must call it. A group that the script has made already is
    used as it is.

    Args:
        device (torch.device or str, optional): Where this process trains:
            NCCL connects GPUs, gloo everything else. (default: :obj:`"cpu"`)
    """
    device = torch.device(device)
    if not dist.is_available():
        return World()
    if not dist.is_initialized():
        if int(os.environ.get('WORLD_SIZE', 1)) < 2 or 'RANK' not in os.environ:
            return World()
        missing = [name for name in ('MASTER_ADDR', 'MASTER_PORT') if name not in os.environ]
        if missing:
            raise DistributedError(
                f'$RANK and $WORLD_SIZE are set, but {missing} are not: start with torchrun, '
                'or unset $WORLD_SIZE to run one process'
            )
        if device.type == 'cuda':
            torch.accelerator.set_device_index(device)
        backend = 'cpu:gloo,cuda:nccl' if device.type == 'cuda' else 'gloo'
        dist.init_process_group(backend, timeout=TIMEOUT)
    if dist.get_world_size() == 1:
        return World()
    # A group of GPUs alone carries no message from CPU to CPU.
    only_gpus = 'gloo' not in dist.get_backend_config()
    messages = dist.new_group(backend='gloo', timeout=TIMEOUT) if only_gpus else None
    return World(dist.get_rank(), dist.get_world_size(), messages)


def leave_world() -> None:
    r"""Ends the connection to the other processes, if there is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
