r"""The device and the processes of a run: one process, or several under ``torchrun``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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
    r"""The processes of a run, and the rank of this one.

    Gradients and the tensors of :meth:`sum` travel between devices, all other
    messages between CPUs. A world of one process sends nothing.

    Args:
        rank (int, optional): The rank of this process. (default: :obj:`0`)
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
        r"""Returns the values of all processes, in the order of their ranks."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value, group=self.messages)
        return values

    def first(self, value: T) -> T:
        r"""Returns the value of the first process to all processes."""
        return self.gather(value)[0]

    @contextmanager
    def together(self, what: str) -> Iterator[None]:
        r"""Makes a failure in one process an error in all of them. Otherwise
        the others would wait for the failed process.

        Args:
            what (str): What the processes do in this block, for the message.
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
    r"""Connects this process with the others that :obj:`torchrun` started.
    Without :obj:`torchrun`, returns a world of one process.

    Every process must call it. A process group that is already initialized is
    used.

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
    # NCCL alone sends no messages from CPU to CPU.
    only_gpus = 'gloo' not in dist.get_backend_config()
    messages = dist.new_group(backend='gloo', timeout=TIMEOUT) if only_gpus else None
    return World(dist.get_rank(), dist.get_world_size(), messages)


def leave_world() -> None:
    r"""Closes the connection to the other processes, if there is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def resolve_device(device: str | torch.device = 'auto') -> torch.device:
    r"""Turns :obj:`"auto"` into the accelerator of this machine, or the CPU.

    Under :obj:`torchrun`, each process of a machine takes the accelerator
    with the index :obj:`$LOCAL_RANK`, unless :obj:`device` has an index.

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
    r"""Restores the global state of randomness of the CPU and of a device
    when the block ends.
    """
    if device.type in ('cpu', 'mps'):  # mps has a single state, without an index
        return torch.random.fork_rng(devices=[])
    index = torch.accelerator.current_device_index() if device.index is None else device.index
    return torch.random.fork_rng(devices=[index], device_type=device.type)


def seed_global(seed: int, device: torch.device) -> None:
    r"""Seeds the global state of randomness, which dropout uses.

    :meth:`torch.manual_seed` seeds every backend, which takes longer than a
    small layer of the model.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != 'cpu':
        torch.get_device_module(device).manual_seed(seed)
