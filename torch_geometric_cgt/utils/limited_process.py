r"""Runs a function in a process of its own, with limits of time and memory."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

import psutil

from torch_geometric_cgt.errors import OutOfTime
from torch_geometric_cgt.utils.run_limits import Limits, is_out_of_memory

FINISHED, OUT_OF_TIME, OUT_OF_MEMORY, FAILED = 'finished', 'out of time', 'out of memory', 'failed'
STARTED = 'started'
POLL = 0.05  # seconds between two looks at the process
GRACE = 2.0  # seconds after the limit in which the function may stop by itself
MAX_START = 600.0  # seconds until the function is called
MAX_MESSAGE = 500  # characters
WALL, PROCESSOR = 'wall', 'processor'  # clocks


@dataclass(frozen=True)
class LimitedRun:
    r"""The outcome of a run.

    Args:
        status (str): :obj:`"finished"`, :obj:`"out of time"`,
            :obj:`"out of memory"` or :obj:`"failed"`.
        value (Any): What the function returned, if it finished.
        message (str): The error, if it failed.
        seconds (float): The wall time of the function.
        peak_bytes (int): The largest memory of the process, as far as it is
            known.
        processor_seconds (float): The processor time of the process, which does not
            depend on what else runs on the machine.
    """

    status: str
    value: Any = None
    message: str = ''
    seconds: float = 0.0
    peak_bytes: int = 0
    processor_seconds: float = 0.0

    @property
    def text(self) -> str:
        r"""The status, with the error of a failed run."""
        return f'{self.status}: {self.message}' if self.status == FAILED else self.status

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def run_limited(
    function: Callable[..., Any],
    *args: Any,
    seconds: float | None = None,
    max_bytes: int | None = None,
    clock: str = WALL,
) -> LimitedRun:
    r"""Calls :obj:`function(*args, limits)` in a new process and returns its outcome.
    Neither a hang nor an error nor a process that the operating system kills ends the
    caller.

    The function gets a :class:`~torch_geometric_cgt.utils.run_limits.Limits` object,
    to stop by itself. If it does not, the process is ended. The clock starts when the
    function does, after its module is imported.

    The process is forked from a server that has imported the module of the first
    function and has not computed anything, so that a start takes milliseconds after the
    first one. A script that calls this function needs ``if __name__ == '__main__':``.

    Args:
        function (callable): A function of a module. Its arguments and its result are
            pickled.
        *args (Any): Its arguments.
        seconds (float, optional): The largest time. (default: :obj:`None`)
        max_bytes (int, optional): The largest memory of the process.
            (default: :obj:`None`)
        clock (str, optional): Whether :obj:`seconds` are :obj:`"wall"` time or time of
            the :obj:`"processor"`, which does not depend on what else runs on the
            machine. In the second case, the function does not learn of the limit and is
            always ended. (default: :obj:`"wall"`)
    """
    Limits(seconds, max_bytes)  # checks both
    if clock not in (WALL, PROCESSOR):
        raise ValueError(f"'clock' must be '{WALL}' or '{PROCESSOR}' (got '{clock}')")
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload([function.__module__])
    receiver, sender = context.Pipe(duplex=False)
    told = seconds if clock == WALL else None
    process = context.Process(target=_call, args=(sender, function, args, told, max_bytes))
    process.start()
    sender.close()
    try:
        return _watch(process, receiver, seconds, max_bytes, clock)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        receiver.close()


def _watch(
    process: Any, receiver: Connection, seconds: float | None, max_bytes: int | None, clock: str
) -> LimitedRun:
    created = started = time.monotonic()
    peak, busy, has_started = 0, 0.0, False

    def stopped(status: str, message: str = '') -> LimitedRun:
        return LimitedRun(status, None, message, time.monotonic() - started, peak, busy)

    while True:
        try:
            found = receiver.recv() if receiver.poll(POLL) else None
        except EOFError:  # the process ended without an outcome
            process.join()
            code = process.exitcode
            if code == -signal.SIGKILL:  # as the operating system does if it runs out of memory
                return stopped(OUT_OF_MEMORY)
            return stopped(FAILED, f'the process ended with exit code {code}')
        if found == STARTED:
            started, has_started = time.monotonic(), True
        elif found is not None:
            return LimitedRun(**{**found, 'peak_bytes': max(peak, found['peak_bytes'])})
        memory, used = _use_of(process.pid)
        peak, busy = max(peak, memory), max(busy, used)
        passed = busy if clock == PROCESSOR else time.monotonic() - started - GRACE
        if max_bytes is not None and peak > max_bytes:
            return stopped(OUT_OF_MEMORY)
        if has_started and seconds is not None and passed > seconds:
            return stopped(OUT_OF_TIME)
        if not has_started and time.monotonic() - created > MAX_START:
            return stopped(FAILED, 'the process did not start')


def _use_of(pid: int) -> tuple[int, float]:
    r"""The memory in bytes and the processor seconds of a process and of those that it
    started.
    """
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        times = [member.cpu_times() for member in family]
        memory = sum(member.memory_info().rss for member in family)
    except psutil.Error:  # it ended
        return 0, 0.0
    return memory, sum(used.user + used.system for used in times)


def _call(
    sender: Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    seconds: float | None,
    max_bytes: int | None,
) -> None:
    r"""Runs in the new process."""
    sender.send(STARTED)
    limits = Limits(seconds, max_bytes)
    status, value, message = FINISHED, None, ''
    try:
        value = function(*args, limits)
    except OutOfTime:
        status = OUT_OF_TIME
    except Exception as error:
        status = OUT_OF_MEMORY if is_out_of_memory(error) else FAILED
        message = ' '.join(f'{type(error).__name__}: {error}'.split())[:MAX_MESSAGE]
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = used.ru_maxrss if sys.platform == 'darwin' else used.ru_maxrss * 1024
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = sum(part.ru_utime + part.ru_stime for part in (used, ended))
    run = LimitedRun(status, value, message, round(limits.elapsed, 3), peak, round(busy, 3))
    sender.send(run.to_dict())
    sender.close()
