r"""Runs cells of the benchmark in a pool of processes, and resumes interrupted runs."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from torch_geometric_cgt.benchmark.cells import Cell, CellIndex, add_cell, settings_of
from torch_geometric_cgt.benchmark.experiments import (
    EXPERIMENTS,
    BenchmarkConfig,
    CellKey,
    GraphSpec,
    graph_of,
)
from torch_geometric_cgt.benchmark.measure_cell import (
    CellGraphs,
    make_graphs,
    measure_cell,
    trained_on,
)
from torch_geometric_cgt.datasets import SOURCES, load_source
from torch_geometric_cgt.errors import DistributedError
from torch_geometric_cgt.version import __version__

if TYPE_CHECKING:  # Windows has no ForkServerContext
    from multiprocessing.context import ForkServerContext, SpawnContext

BAR_FORMAT = '{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]'
JOIN_TIMEOUT = 5.0  # seconds before a process that does not end is killed


def run_cells(
    keys: Sequence[CellKey],
    path: Path,
    config: BenchmarkConfig | None = None,
    root: Path | None = None,
    jobs: int = 1,
    log: bool = True,
) -> dict[CellKey, Cell]:
    r"""Runs those of some cells that are not yet in a file, and appends each
    one to the file when it is finished.

    Args:
        keys (list[CellKey]): The cells.
        path (Path): The file of finished cells.
        config (BenchmarkConfig, optional): The settings of all cells.
            (default: :obj:`None`)
        root (Path, optional): The folder of synthetic graphs.
            (default: the user's cache folder)
        jobs (int, optional): The number of processes. Cells of one graph run
            in one process. (default: :obj:`1`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)

    Returns:
        The given cells, all finished.
    """
    config = config or BenchmarkConfig()
    if jobs < 1:
        raise ValueError(f"'jobs' must be at least 1 (got {jobs})")
    if path.is_dir():
        raise IsADirectoryError(
            f"'{path}' is a folder; cells are kept in a file, for instance '{path / 'cells.jsonl'}'"
        )
    keys = list(dict.fromkeys(keys))
    runner = CellRunner(path, config, root)
    index = runner.index
    index.refresh()
    index.warn()
    for key in keys:
        if key not in index.cells and (cell := index.copy(key)) is not None:
            add_cell(path, cell)
    index.refresh()
    groups: dict[GraphSpec, list[CellKey]] = {}
    for key in keys:
        if key not in index.cells:
            groups.setdefault(graph_of(key, config), []).append(key)
    check_sources([key for members in groups.values() for key in members])
    found = dict(index.cells)
    with Progress(groups, jobs, log) as progress, closing(_run(runner, groups, jobs)) as steps:
        for spec, cell in steps:
            if cell is None:
                progress.begin(spec)
            else:
                found[cell.key] = cell
                progress.add(spec, cell)
    return {key: found[key] for key in keys}


def check_sources(keys: Sequence[CellKey]) -> None:
    r"""Loads the datasets of some cells, so that missing files raise an error
    before the first cell is run.
    """
    names = dict.fromkeys(key.dataset for key in keys)
    for key in keys:
        if EXPERIMENTS[key.experiment].measures == 'exchange' and trained_on(key.level) in SOURCES:
            names[trained_on(key.level)] = None
    for name in names:
        load_source(name)


def _run(
    runner: CellRunner, groups: dict[GraphSpec, list[CellKey]], jobs: int
) -> Generator[tuple[GraphSpec, Cell | None], None, None]:
    r"""Yields each graph with :obj:`None` when its work begins, and then with
    each of its finished cells.
    """
    tasks = list(groups.items())
    if jobs == 1:
        for spec, keys in tasks:
            yield spec, None
            for cell in runner.run(spec, keys):
                yield spec, cell
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    fresh = CellRunner(runner.path, runner.config, runner.root)  # reads the file in its process
    with closing(run_tasks(fresh.run, tasks, jobs, threads)) as steps:
        for task, cell in steps:
            yield tasks[task][0], cell


class CellRunner:
    r"""Runs cells and appends them to a file.

    Args:
        path (Path): The file of finished cells.
        config (BenchmarkConfig): The settings of all cells.
        root (Path, optional): The folder of synthetic graphs.
            (default: the user's cache folder)
    """

    def __init__(self, path: Path, config: BenchmarkConfig, root: Path | None = None) -> None:
        self.path, self.config, self.root = path, config, root
        self.index = CellIndex(path, config)

    def run(self, spec: GraphSpec, keys: Sequence[CellKey]) -> Iterator[Cell]:
        r"""Runs the cells of one graph. The graph is built when the first cell
        needs it. Cells whose computation is already finished are copied.
        """
        graphs: CellGraphs | None = None
        for key in keys:
            self.index.refresh()
            if key in self.index.cells:  # another run writes to the same file
                yield self.index.cells[key]
                continue
            cell = self.index.copy(key)
            if cell is None:
                graphs = graphs or make_graphs(spec, self.config, self.root)
                cell = self._measure(key, graphs, spec)
            add_cell(self.path, cell)
            yield cell

    def _measure(self, key: CellKey, graphs: CellGraphs, spec: GraphSpec) -> Cell:
        started = time.monotonic()
        cell = measure_cell(key, graphs, spec, self.config, self.index.original(key))
        facts = {**graphs.facts, **cell.facts, 'seconds': round(time.monotonic() - started, 1)}
        return replace(cell, facts={**facts, **settings_of(key, self.config), **_provenance()})


def _provenance() -> dict[str, Any]:
    r"""Where, when and how a cell was run."""
    return {
        'date': datetime.now(timezone.utc).strftime('%Y-%m-%d'),
        'version': __version__,
        'commit': _commit(),
        'torch': torch.__version__,
        'command': shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _commit() -> str | None:
    r"""The commit of a source checkout, or :obj:`None`."""
    command = ['git', 'rev-parse', '--short', 'HEAD']
    try:
        found = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


class Progress:
    r"""A progress bar of cells, with an estimate of the time left. Without a
    terminal, there is one line per cell instead.

    The estimate is the mean time of a cell times the number of cells left,
    plus the mean time of building a graph times the number of graphs left.

    Args:
        groups (dict): The cells of each graph.
        jobs (int): The number of processes.
        log (bool): Whether to show the bar.
    """

    def __init__(
        self, groups: Mapping[GraphSpec, Sequence[CellKey]], jobs: int, log: bool = True
    ) -> None:
        self.left = {spec: len(keys) for spec, keys in groups.items()}
        self.jobs = jobs
        self._begun: dict[GraphSpec, float] = {}
        self._graph_seconds: dict[GraphSpec, float] = {}
        self._cell_seconds: list[float] = []
        self._total = sum(self.left.values())
        self._bar = tqdm(
            total=self._total,
            desc='benchmark',
            unit='cell',
            bar_format=BAR_FORMAT,
            disable=None if log else True,  # None draws on terminals only
        )
        self._writes_lines = log and self._bar.disable

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def begin(self, spec: GraphSpec) -> None:
        r"""Records that the work on a graph begins."""
        self._begun[spec] = time.monotonic()
        self._show(spec.dataset, spec.variant, 'begins')

    def add(self, spec: GraphSpec, cell: Cell) -> None:
        r"""Records a finished cell of a graph."""
        self.left[spec] -= 1
        seconds = cell.facts.get('seconds')
        if seconds is not None and 'copied_from' not in cell.facts:
            self._cell_seconds.append(seconds)
            whole = time.monotonic() - self._begun[spec]
            self._graph_seconds.setdefault(spec, max(0.0, whole - seconds))
        key = cell.key
        self._bar.update()
        self._show(key.dataset, key.level, key.variant, key.model)

    def _show(self, *parts: str) -> None:
        name, left = ' '.join(filter(None, parts)), self.seconds_left()
        more = '' if left is None else f', about {tqdm.format_interval(left)} left'
        self._bar.set_postfix_str(name + more)
        if self._writes_lines:
            done = self._total - sum(self.left.values())
            sys.stderr.write(f'benchmark {done}/{self._total}: {name}{more}\n')
            sys.stderr.flush()

    def seconds_left(self) -> float | None:
        r"""The estimated time left, or :obj:`None` before the first cell."""
        if not self._cell_seconds:
            return None
        graphs = [spec for spec, count in self.left.items() if count]
        new = [spec for spec in graphs if spec not in self._graph_seconds]
        seconds = sum(self.left.values()) * _mean(self._cell_seconds)
        seconds += len(new) * _mean(list(self._graph_seconds.values()))
        return seconds / max(1, min(self.jobs, len(graphs)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


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
    r"""How processes are started. They are copies of a server that has imported this package, if
    the system can do that: the import takes seconds and memory, and is done once.
    """
    if 'forkserver' not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context('spawn')
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload([__name__])
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
