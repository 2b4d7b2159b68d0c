r"""The device and the processes of a run: one process, or several under ``torchrun``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from torch_geometric_cgt.errors import DistributedError

TIMEOUT = timedelta(hours=12)  # one process may quantize for hours while the others wait
FAILURE = 'torch_geometric_cgt/failure'  # a key of the store of the processes
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

    def share(self, num_rows: int, rank: int | None = None) -> slice:
        r"""The rows that a process holds if rows are divided into contiguous blocks.

        Args:
            num_rows (int): The number of rows of all processes.
            rank (int, optional): The process; this one if not given.
                (default: :obj:`None`)
        """
        rank = self.rank if rank is None else rank
        return slice(num_rows * rank // self.size, num_rows * (rank + 1) // self.size)

    def sum(self, value: Tensor) -> Tensor:
        r"""Adds a tensor up over all processes, in place, on its device."""
        if self.size > 1:
            dist.all_reduce(value, group=self.messages if value.is_cpu else None)
        return value

    def concatenate(self, rows: Tensor) -> Tensor:
        r"""Returns the rows of all processes in the order of their ranks. Their
        numbers may differ.

        Args:
            rows (torch.Tensor): The rows of this process, on the CPU.
        """
        if self.size == 1:
            return rows
        counts = self.gather(rows.size(0))
        out = rows.new_empty((sum(counts), *rows.shape[1:]))
        for rank, block in enumerate(out.split(counts)):
            if rank == self.rank:
                block.copy_(rows)
            if block.numel():
                dist.broadcast(block, src=rank, group=self.messages)
        return out

    def exchange(self, rows: Tensor, counts: list[int]) -> tuple[Tensor, list[int]]:
        r"""Sends rows to each process, and returns those that all processes sent to
        this one, in the order of their ranks, with their numbers.

        Args:
            rows (torch.Tensor): The rows to send, on the CPU, ordered by the
                rank of their receiver.
            counts (list[int]): The number of rows for each process.
        """
        if self.size == 1:
            return rows, counts
        given = torch.tensor(counts)
        taken = torch.empty_like(given)
        dist.all_to_all_single(taken, given, group=self.messages)
        received = taken.tolist()
        out = rows.new_empty((sum(received), *rows.shape[1:]))
        dist.all_to_all_single(out, rows.contiguous(), received, counts, group=self.messages)
        return out, received

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

    def by_first(self, run: Callable[[], T]) -> T:
        r"""Runs a function in the first process, and returns its result to all
        processes.

        Args:
            run (callable): The function.
        """
        value = run() if self.is_first else None
        return self.gather(value)[0]  # type: ignore[return-value]

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
            error.known_to_all = True  # type: ignore[attr-defined]
            raise
        failed = {rank: text for rank, text in enumerate(self.gather('')) if text}
        for rank, text in failed.items():
            known = DistributedError(f'Process {rank} of {self.size} failed to {what}: {text}')
            known.known_to_all = True
            raise known

    @contextmanager
    def connected(self, what: str) -> Iterator[None]:
        r"""Ends all processes if one of them fails inside a block in which they
        exchange data at any moment.

        The process that fails leaves its error in the store of the processes and
        closes its connections. The others, which wait for it, then raise a
        :class:`DistributedError` that quotes this error. If a process was
        killed, there is no error to quote. The processes cannot exchange
        anything afterwards, so that the program must be started again.

        Args:
            what (str): What the processes do in this block, for the message.
        """
        if self.size == 1:
            yield
            return
        try:
            yield
        except Exception as error:
            if getattr(error, 'known_to_all', False):  # of :meth:`together`
                raise
            failed = _report_failure(self.rank, f'{type(error).__name__}: {error}')
            if dist.is_initialized() and 'nccl' not in dist.get_backend_config():
                leave_world()  # NCCL could wait for the others here
            if failed is not None:
                rank, text = failed
                raise DistributedError(
                    f'Process {rank} of {self.size} failed to {what}: {text}'
                ) from error
            if isinstance(error, RuntimeError) and 'gloo' in str(error):
                raise DistributedError(
                    f'Another process ended while {self.size} processes {what}, without an error '
                    f'message: start them again to resume ({error})'
                ) from error
            raise


def _report_failure(rank: int, text: str) -> tuple[int, str] | None:
    r"""Leaves an error for the other processes, or returns that of the process that
    failed first.
    """
    try:
        store = dist.distributed_c10d._get_default_store()
        first = store.compare_set(FAILURE, '', json.dumps([rank, text])).decode()
        failed_rank, failed_text = json.loads(first)
    except (RuntimeError, ValueError):  # the store ended with the first process
        return None
    return None if failed_rank == rank else (failed_rank, failed_text)


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


def _available(device: str | torch.device) -> torch.device:
    r"""The device of a name. Raises :class:`ValueError` if this machine does not have it."""
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"'device' must be 'auto' or a device of PyTorch, e.g. 'cpu' or 'cuda' (got '{device}')"
        ) from error
    if chosen.type not in ('cpu', 'meta') and not torch.accelerator.is_available():
        raise ValueError(f"'device' must be 'cpu' or 'auto' on this machine (got '{device}')")
    return chosen


def resolve_device(device: str | torch.device = 'auto') -> torch.device:
    r"""Turns :obj:`"auto"` into the accelerator of this machine, or the CPU.

    Under :obj:`torchrun`, each process of a machine takes the accelerator
    with the index :obj:`$LOCAL_RANK`, unless :obj:`device` has an index.

    Args:
        device (str or torch.device, optional): :obj:`"auto"` or anything that
            :class:`torch.device` takes. (default: :obj:`"auto"`)
    """
    if device != 'auto':
        chosen = _available(device)
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
