r"""Cells that need not be run: measured before, in the way that is asked for, or equal work."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.cells import Cell, CellFile, CellKey
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, SAMPLING
from torch_geometric_cgt.benchmark.graphs import BenchmarkConfig, graph_of
from torch_geometric_cgt.benchmark.links import link_config
from torch_geometric_cgt.benchmark.training import GNNConfig

# Of cells from before these were noted.
FIRST_PROTOCOL = 1
FIRST_TRAINING = {
    'hidden_channels': 64,
    'dropout': 0.5,
    'lr': 0.01,
    'sampled_lr': 0.003,
    'weight_decay': 5e-5,
    'batch_size': 512,
}


class KnownCells:
    r"""The cells of a file that were measured in the way that is asked for.

    Args:
        path (Path): The file. It need not exist yet.
        config (BenchmarkConfig): What all cells share.
    """

    def __init__(self, path: Path, config: BenchmarkConfig) -> None:
        self.file, self.config = CellFile(path), config
        self.cells: dict[CellKey, Cell] = {}
        self._by_work: dict[Hashable, Cell] = {}
        self._originals: dict[Hashable, Cell] = {}  # by the work of the default variant

    def refresh(self) -> None:
        r"""Reads what was added to the file."""
        if not self.file.path.exists():
            return
        for cell in self.file.read():
            self._remove(cell.key)
            if reason_against(cell, self.config) is None:
                self._add(cell)

    def _remove(self, key: CellKey) -> None:
        old = self.cells.pop(key, None)
        if old is None:
            return
        for index in (self._by_work, self._originals):
            for work in [work for work, cell in index.items() if cell is old]:
                del index[work]

    def _add(self, cell: Cell) -> None:
        self.cells[cell.key] = cell
        work = work_of(cell.key, self.config)
        if 'copied_from' not in cell.facts or work not in self._by_work:
            self._by_work[work] = cell
        if 'original' in cell.scores:
            self._originals.setdefault(self._usual(cell.key), cell)

    def copy(self, key: CellKey) -> Cell | None:
        r"""Equal work of another table, or under another name, as a cell with
        the facts of when it was done.
        """
        same = self._by_work.get(work_of(key, self.config))
        if same is None:
            return None
        source = same.facts.get('copied_from', name_of(same.key))
        return Cell(key, same.scores, same.histograms, {**same.facts, 'copied_from': source})

    def original(self, key: CellKey) -> Cell | None:
        r"""A cell with the same scores of the original graph: no variant of
        the generator touches these.
        """
        return self._originals.get(self._usual(key))

    def _usual(self, key: CellKey) -> Hashable:
        return work_of(replace(key, variant=''), self.config)

    def warn(self) -> None:
        r"""Warns of damaged lines and of cells that were measured otherwise."""
        self.file.warn()
        reasons = Counter(reason_against(cell, self.config) for cell in self.file.cells.values())
        parts = [f'{number} {reason}' for reason, number in reasons.items() if reason]
        if parts:
            count = len(self.file.cells) - reasons[None]
            warnings.warn(
                f'{count} cells of {self.file.path} count as not run: {", ".join(parts)}',
                stacklevel=3,
            )


def reason_against(cell: Cell, config: BenchmarkConfig) -> str | None:
    r"""Why a cell is not what would be measured now, if it is not.

    Args:
        cell (Cell): A cell of a file.
        config (BenchmarkConfig): What all cells share.
    """
    try:
        work_of(cell.key, config)
    except ValueError:
        return 'of tables that are not known'
    if has_other_protocol(cell):
        return 'measured by another protocol'
    wanted = settings_of(cell.key, config)
    known = {'training': FIRST_TRAINING, **cell.facts}
    if any(known.get(name) != wanted[name] for name in wanted if name != 'protocol'):
        return 'measured with other settings'
    return None


def has_other_protocol(cell: Cell) -> bool:
    r"""Whether the scores of a cell mean something else than those of today."""
    experiment = EXPERIMENTS.get(cell.key.experiment)
    if experiment is None:
        return False
    return cell.facts.get('protocol', FIRST_PROTOCOL) != experiment.protocol


def settings_of(key: CellKey, config: BenchmarkConfig) -> dict[str, Any]:
    r"""The facts that decide whether a cell counts, as they come back from a
    JSON file. Numbers of epochs follow from the protocol.
    """
    experiment = EXPERIMENTS[key.experiment]
    settings: dict[str, Any] = {
        'config': {**asdict(config), 'num_neighbors': list(config.num_neighbors)},
        'protocol': experiment.protocol,
    }
    if experiment.trains:
        training = asdict(link_config(1) if experiment.measures == 'links' else GNNConfig())
        settings['training'] = {name: training[name] for name in FIRST_TRAINING}
    return settings


def work_of(key: CellKey, config: BenchmarkConfig) -> Hashable:
    r"""What is computed for a cell: equal for cells of different tables that
    ask for the same.
    """
    graph = graph_of(key, config)
    measures = EXPERIMENTS[key.experiment].measures
    how = num_sampled(key, config) if measures == 'classes' else key.level
    return graph, measures, key.model, how


def num_sampled(key: CellKey, config: BenchmarkConfig) -> int | None:
    r"""The neighbours that a model samples: where edges are noisy as many as
    without noise.
    """
    if EXPERIMENTS[key.experiment].level_is == 'num_sampled':
        return int(key.level)
    return config.num_neighbors[0] if key.model in SAMPLING else None


def name_of(key: CellKey) -> str:
    r"""The table of a cell, and the variant where it is not the default."""
    return f'{key.experiment}/{key.variant}' if key.variant else key.experiment
