r"""Runs cells of the benchmark in one or several processes, and resumes interrupted runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

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
from torch_geometric_cgt.benchmark.process_pool import run_tasks
from torch_geometric_cgt.datasets import SOURCES, load_source
from torch_geometric_cgt.version import __version__

BAR_FORMAT = '{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]'


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
