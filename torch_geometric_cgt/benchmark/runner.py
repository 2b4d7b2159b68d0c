r"""Runs cells of the benchmark, stores each when it is finished, and goes on where it was."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from torch_geometric_cgt.benchmark.cells import Cell, CellKey, add_cell, read_cells
from torch_geometric_cgt.benchmark.exchange import exchange_scores
from torch_geometric_cgt.benchmark.experiments import SAMPLING
from torch_geometric_cgt.benchmark.graphs import (
    BenchmarkConfig,
    Graphs,
    GraphSpec,
    graph_of,
    make_graphs,
)
from torch_geometric_cgt.benchmark.links import score_links
from torch_geometric_cgt.benchmark.statistics import duplicates, wasserstein, zero_vectors
from torch_geometric_cgt.benchmark.training import GNNConfig, TreeSet, evaluate_gnn, train_gnn
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
    known = known_cells(path, config)
    groups: dict[GraphSpec, list[CellKey]] = {}
    for key in keys:
        if key not in known:
            groups.setdefault(graph_of(key, config), []).append(key)
    total = sum(map(len, groups.values()))
    with tqdm(total=total, desc='benchmark', unit='cell', disable=not log) as bar:
        if jobs == 1:
            for spec, members in groups.items():
                bar.set_postfix_str(f'{spec.dataset} {spec.variant}'.strip())
                for cell in run_group(spec, members, path, config, root):
                    known[cell.key] = cell
                    bar.update()
        else:
            threads = max(1, (os.cpu_count() or 1) // jobs)
            context = multiprocessing.get_context('spawn')
            with ProcessPoolExecutor(jobs, context, torch.set_num_threads, (threads,)) as pool:
                waiting = [
                    pool.submit(_run_all, spec, members, path, config, root)
                    for spec, members in groups.items()
                ]
                try:
                    for done in as_completed(waiting):
                        for cell in done.result():
                            known[cell.key] = cell
                            bar.update()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
    return {key: known[key] for key in keys}


def known_cells(path: Path, config: BenchmarkConfig) -> dict[CellKey, Cell]:
    r"""The cells of a file that were measured in the same way."""
    if not path.exists():
        return {}
    cells = read_cells([path])
    known = {key: cell for key, cell in cells.items() if cell.facts.get('config') == _plain(config)}
    if len(known) < len(cells):
        warnings.warn(
            f'{len(cells) - len(known)} cells of {path} were measured with other settings and '
            f'count as not run',
            stacklevel=2,
        )
    return known


def _run_all(spec: GraphSpec, *args: Any) -> list[Cell]:
    return list(run_group(spec, *args))


def run_group(
    spec: GraphSpec,
    keys: Sequence[CellKey],
    path: Path,
    config: BenchmarkConfig,
    root: Path | None,
) -> Iterator[Cell]:
    r"""Runs the cells of one graph. Equal work of another table, or of
    another variant of the generator, is looked up.
    """
    graphs = make_graphs(spec, config, root)
    for key in keys:
        started = time.monotonic()
        done = {_work(k, config): c for k, c in known_cells(path, config).items()}
        cell = _run_cell(key, graphs, spec, config, done)
        facts = {
            **graphs.facts,
            'seconds': round(time.monotonic() - started, 1),
            'config': _plain(config),
            **_provenance(),
        }
        cell = replace(cell, facts=facts)
        add_cell(path, cell)
        yield cell


def _run_cell(
    key: CellKey,
    graphs: Graphs,
    spec: GraphSpec,
    config: BenchmarkConfig,
    done: dict[tuple, Cell],
) -> Cell:
    sets = graphs.sets
    if key.experiment == 'statistics':
        return _statistics(key, sets)
    if key.experiment == 'exchange':
        scores = exchange_scores(key.level, key.model, sets, spec, key.seed)
        return Cell(key, {'score': scores})
    same = done.get(_work(key, config))
    if same is not None:
        return Cell(key, same.scores)
    usual = _work(replace(key, variant=''), config)
    originals = {
        _work(replace(c.key, variant=''), config): c.scores['original']
        for c in done.values()
        if 'original' in c.scores
    }
    found = {}
    for column, trees in sets.items():
        if usual in originals and column == 'original':  # no variant touches it
            found[column] = originals[usual]
        else:
            found[column] = _score(key, trees, config)
    return Cell(key, found)


def _score(key: CellKey, trees: TreeSet, config: BenchmarkConfig) -> dict[str, float]:
    if key.experiment == 'link':
        return score_links(key.model, key.level, trees, key.seed)
    training = GNNConfig.for_roots(trees.rows('train').numel())
    training = replace(training, num_sampled=_num_sampled(key, config))
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


def _num_sampled(key: CellKey, config: BenchmarkConfig) -> int | None:
    r"""The neighbours that a model samples: where edges are noisy as many as without noise."""
    if key.experiment == 'number':
        return int(key.level)
    return config.num_neighbors[0] if key.model in SAMPLING else None


def _work(key: CellKey, config: BenchmarkConfig) -> tuple:
    r"""What is computed for a cell: equal for cells of different tables that ask for the same."""
    graph = graph_of(key, config)
    if key.experiment in ('link', 'exchange', 'statistics'):
        return graph, key.model, key.experiment, key.level
    return graph, key.model, _num_sampled(key, config)


def _plain(config: BenchmarkConfig) -> dict[str, Any]:
    r"""As it comes back from a JSON file."""
    return {**asdict(config), 'num_neighbors': list(config.num_neighbors)}


def _provenance() -> dict[str, Any]:
    r"""Where, when and how a cell was run."""
    return {
        'date': datetime.now(timezone.utc).strftime('%Y-%m-%d'),
        'version': __version__,
        'commit': _commit(),
        'torch': torch.__version__,
        'command': ' '.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
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
