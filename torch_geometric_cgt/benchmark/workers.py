r"""Processes that work through tasks: one task at a time each, and none outlives an interrupt."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from torch_geometric_cgt.errors import DistributedError

PATIENCE = 5.0  # seconds until a process that was asked to end is killed


def work_through(
    run: Callable[..., Iterable[Any]], tasks: Sequence[tuple], jobs: int, num_threads: int = 1
) -> Generator[tuple[int, Any], None, None]:
    r"""Runs tasks in processes and yields what they give when they give it.

    The first error of a task is raised here. Then, as when this iterator is
    closed, all processes are ended at once.

    Args:
        run (callable): Takes the values of a task and returns an iterator. It
            is sent to each process once, and keeps its state between tasks.
        tasks (list[tuple]): The tasks, in the order in which they are begun.
        jobs (int): The number of processes.
        num_threads (int, optional): The threads of each process.
            (default: :obj:`1`)

    Yields:
        The number of a task and :obj:`None` when it begins, then with each
        of the items it gives.
    """
    waiting = deque(range(len(tasks)))
    processes: dict[Connection, SpawnProcess] = {}
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
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()


def _start(run: Callable[..., Iterable[Any]], num_threads: int) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context('spawn')
    link, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, run, num_threads))
    # An interrupt reaches all processes of a terminal. One of them decides what becomes of it.
    before = _block_interrupts()
    try:
        process.start()
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    other.close()  # so that the end of the process is noticed
    return link, process


def _block_interrupts() -> set[signal.Signals | int] | None:
    if not hasattr(signal, 'pthread_sigmask'):  # Windows
        return None
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}))


def _serve(link: Connection, run: Callable[..., Iterable[Any]], num_threads: int) -> None:
    r"""What a process does: task by task, until nobody listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
    r"""An error that can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f'{type(error).__name__}: {error}')
    return error


def _died(process: SpawnProcess) -> DistributedError:
    process.join(PATIENCE)
    return DistributedError(
        f'A process ended without a word (exit code {process.exitcode}). If memory was short, '
        f'fewer processes need less'
    )
