r"""Runs cells of the benchmark, stores each when it is finished, and goes on where it was."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from torch_geometric_cgt.benchmark.cells import Cell, CellKey, add_cell
from torch_geometric_cgt.benchmark.exchange import exchange_scores, trained_on
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.benchmark.graphs import (
    BenchmarkConfig,
    Graphs,
    GraphSpec,
    graph_of,
    make_graphs,
)
from torch_geometric_cgt.benchmark.known import KnownCells, name_of, num_sampled, settings_of
from torch_geometric_cgt.benchmark.links import score_links
from torch_geometric_cgt.benchmark.progress import Progress
from torch_geometric_cgt.benchmark.statistics import duplicates, wasserstein, zero_vectors
from torch_geometric_cgt.benchmark.training import GNNConfig, TreeSet, evaluate_gnn, train_gnn
from torch_geometric_cgt.benchmark.workers import work_through
from torch_geometric_cgt.datasets import SOURCES, load_source
from torch_geometric_cgt.version import __version__

STATISTICS = {'zero_vectors': zero_vectors, 'duplicates': duplicates}


def run_cells(
    keys: Sequence[CellKey],
    path: Path,
    config: BenchmarkConfig | None = None,
    root: Path | None = None,
    jobs: int = 1,
    log: bool = True,
) -> dict[CellKey, Cell]:
    r"""Runs those of some cells that a file does not hold yet.

    Args:
        keys (list[CellKey]): The cells.
        path (Path): The file of finished cells.
        config (BenchmarkConfig, optional): What all cells share.
            (default: :obj:`None`)
        root (Path, optional): Where synthetic graphs are kept.
            (default: the user's cache folder)
        jobs (int, optional): The number of processes. Cells that share a
            graph stay together. (default: :obj:`1`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)

    Returns:
        All finished cells among the given ones.
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
    known = runner.known
    known.refresh()
    known.warn()
    for key in keys:
        if key not in known.cells and (cell := known.copy(key)) is not None:
            add_cell(path, cell)
    known.refresh()
    groups: dict[GraphSpec, list[CellKey]] = {}
    for key in keys:
        if key not in known.cells:
            groups.setdefault(graph_of(key, config), []).append(key)
    check_sources([key for members in groups.values() for key in members])
    found = dict(known.cells)
    with Progress(groups, jobs, log) as progress, closing(_run(runner, groups, jobs)) as steps:
        for spec, cell in steps:
            if cell is None:
                progress.begin(spec)
            else:
                found[cell.key] = cell
                progress.add(spec, cell)
    return {key: found[key] for key in keys}


def check_sources(keys: Sequence[CellKey]) -> None:
    r"""Loads the datasets of some cells, so that missing files are found
    before the first one is run.
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
    r"""Yields each graph when it is begun, and with each of its cells."""
    tasks = list(groups.items())
    if jobs == 1:
        for spec, keys in tasks:
            yield spec, None
            for cell in runner.run(spec, keys):
                yield spec, cell
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    fresh = CellRunner(runner.path, runner.config, runner.root)  # reads the file by itself
    with closing(work_through(fresh.run, tasks, jobs, threads)) as steps:
        for task, cell in steps:
            yield tasks[task][0], cell


class CellRunner:
    r"""Runs the cells of one graph after the other.

    Args:
        path (Path): The file of finished cells.
        config (BenchmarkConfig): What all cells share.
        root (Path, optional): Where synthetic graphs are kept.
            (default: the user's cache folder)
    """

    def __init__(self, path: Path, config: BenchmarkConfig, root: Path | None = None) -> None:
        self.path, self.config, self.root = path, config, root
        self.known = KnownCells(path, config)

    def run(self, spec: GraphSpec, keys: Sequence[CellKey]) -> Iterator[Cell]:
        r"""Runs the cells of one graph, which is built when the first of them
        needs it. Equal work is looked up.
        """
        graphs: Graphs | None = None
        for key in keys:
            self.known.refresh()
            if key in self.known.cells:  # by another run that writes to the same file
                yield self.known.cells[key]
                continue
            cell = self.known.copy(key)
            if cell is None:
                graphs = graphs or make_graphs(spec, self.config, self.root)
                cell = self._measure(key, graphs, spec)
            add_cell(self.path, cell)
            yield cell

    def _measure(self, key: CellKey, graphs: Graphs, spec: GraphSpec) -> Cell:
        started, facts = time.monotonic(), dict(graphs.facts)
        measures = EXPERIMENTS[key.experiment].measures
        if measures == 'statistics':
            cell = _statistics(key, graphs.sets)
        elif measures == 'exchange':
            scores = exchange_scores(key.level, key.model, graphs.sets, spec, key.seed)
            cell = Cell(key, {'score': scores})
        else:
            cell, more = self._score_all(key, graphs.sets)
            facts.update(more)
        facts['seconds'] = round(time.monotonic() - started, 1)
        return replace(cell, facts={**facts, **settings_of(key, self.config), **_provenance()})

    def _score_all(self, key: CellKey, sets: dict[str, TreeSet]) -> tuple[Cell, dict[str, Any]]:
        r"""The scores on each graph, and where those of the original one are from."""
        found, facts = {}, {}
        other = self.known.original(key)
        for column, trees in sets.items():
            if column == 'original' and other is not None:
                found[column] = other.scores[column]
                names = [other.facts.get(name) for name in ('original_from', 'copied_from')]
                facts['original_from'] = names[0] or names[1] or name_of(other.key)
            else:
                found[column] = _score(key, trees, self.config)
        return Cell(key, found), facts


def _score(key: CellKey, trees: TreeSet, config: BenchmarkConfig) -> dict[str, float]:
    if EXPERIMENTS[key.experiment].measures == 'links':
        return score_links(key.model, key.level, trees, key.seed)
    training = GNNConfig.for_roots(trees.rows('train').numel())
    training = replace(training, num_sampled=num_sampled(key, config))
    model = train_gnn(key.model, trees, training, key.seed)
    return evaluate_gnn(model, trees, trees.rows('test'), key.seed)


def _statistics(key: CellKey, sets: dict[str, TreeSet]) -> Cell:
    scores: dict[str, dict[str, float]] = {}
    histograms: dict[str, dict[str, list[int]]] = {}
    for name, statistic in STATISTICS.items():
        counts = {column: statistic(s.index, s.x.size(0)) for column, s in sets.items()}
        histograms[name] = {
            column: torch.bincount(count, minlength=sets[column].index.size(1)).tolist()
            for column, count in counts.items()
        }
        for a, b in [('generated', 'quantized'), ('quantized', 'original')]:
            scores.setdefault(f'{a} to {b}', {})[name] = wasserstein(counts[a], counts[b])
    return Cell(key, scores, histograms)


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
    r"""The commit of a source checkout, where this is one."""
    command = ['git', 'rev-parse', '--short', 'HEAD']
    try:
        found = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
