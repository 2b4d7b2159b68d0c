r"""A pool of processes: runs tasks and yields their items as soon as they arrive."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import torch

from torch_geometric_cgt.errors import DistributedError

if TYPE_CHECKING:  # Windows has no ForkServerContext
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOAD = 'torch_geometric_cgt.benchmark.runner'
JOIN_TIMEOUT = 5.0  # seconds before a process that does not end is killed


def run_tasks(
    run: Callable[..., Iterable[Any]], tasks: Sequence[tuple], jobs: int, num_threads: int = 1
) -> Generator[tuple[int, Any], None, None]:
    r"""Runs tasks in processes and yields their items as soon as they arrive.

    The first error of a task is raised here. On an error, and when this
    generator is closed, all processes are terminated.

    Args:
        run (callable): Takes the values of a task and returns an iterator of
            items. It is sent to each process once, and keeps its state
            between tasks.
        tasks (list[tuple]): The tasks, in the order in which they begin.
        jobs (int): The number of processes.
        num_threads (int, optional): The number of threads of each process.
            (default: :obj:`1`)

    Yields:
        The index of a task with :obj:`None` when it begins, and then with
        each of its items.
    """
    waiting = deque(range(len(tasks)))
    processes: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, int] = {}
    try:
        for _ in range(min(jobs, len(tasks))):
            link, process = _start(run, num_threads)
            processes[link] = process
        idle = list(processes)
        while waiting or busy:
            while idle and waiting:
                link, task = idle.pop(), waiting.popleft()
                link.send(tasks[task])
                busy[link] = task
            ready = wait(list(busy))
            for link in [link for link in busy if link in ready]:
                try:
                    kind, value = link.recv()
                except (EOFError, ConnectionError) as error:
                    raise _died(processes[link]) from error
                if kind in ('begun', 'item'):
                    yield busy[link], value
                elif kind == 'done':
                    idle.append(link)
                    del busy[link]
                else:
                    raise value
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    finally:
        for link, process in processes.items():
            link.close()
            process.join(JOIN_TIMEOUT)
            if process.is_alive():
                process.kill()
                process.join()


def _start(run: Callable[..., Iterable[Any]], num_threads: int) -> tuple[Connection, BaseProcess]:
    context = _context()
    link, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, run, num_threads, dict(os.environ)))
    # Ctrl-C reaches all processes of a terminal. Only the parent handles it.
    before = _block_interrupts()
    try:
        process.start()
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    other.close()  # so that the pipe breaks when the process ends
    return link, process


def _context() -> ForkServerContext | SpawnContext:
    r"""How processes are started. They are copies of a server that has imported the runner of
    cells, if the system can do that: the import takes seconds and memory, and is done once.
    """
    if 'forkserver' not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context('spawn')
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload([PRELOAD])
    return context


def _block_interrupts() -> set[signal.Signals | int] | None:
    if not hasattr(signal, 'pthread_sigmask'):  # Windows
        return None
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}))


def _serve(
    link: Connection,
    run: Callable[..., Iterable[Any]],
    num_threads: int,
    environment: Mapping[str, str],
) -> None:
    r"""Runs in a process: serves one task after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.clear()  # the server of copies may have been started with another environment
    os.environ.update(environment)
    torch.set_num_threads(num_threads)
    try:
        while True:
            task = link.recv()
            link.send(('begun', None))
            try:
                for item in run(*task):
                    link.send(('item', item))
            except Exception as error:
                link.send(('error', _portable(error)))
            else:
                link.send(('done', None))
    except (EOFError, ConnectionError):
        return


def _portable(error: Exception) -> Exception:
    r"""The error, or a replacement of it that can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f'{type(error).__name__}: {error}')
    return error


def _died(process: BaseProcess) -> DistributedError:
    process.join(JOIN_TIMEOUT)
    return DistributedError(
        f'A process ended without an error message (exit code {process.exitcode}). If memory was '
        f'short, use fewer processes'
    )
