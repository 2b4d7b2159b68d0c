r"""Looks up finished cells: equal key and settings, or equal computation in another table."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.cells import Cell, CellFile, CellKey
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, BenchmarkConfig, computation_of
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig
from torch_geometric_cgt.benchmark.link_prediction import link_config

# The settings of cells that do not contain them.
FIRST_PROTOCOL = 1
FIRST_TRAINING = {
    'hidden_channels': 64,
    'dropout': 0.5,
    'lr': 0.01,
    'sampled_lr': 0.003,
    'weight_decay': 5e-5,
    'batch_size': 512,
}


class CellIndex:
    r"""The cells of a file that were measured with the current settings.

    Args:
        path (Path): The file. It need not exist yet.
        config (BenchmarkConfig): The settings of all cells.
    """

    def __init__(self, path: Path, config: BenchmarkConfig) -> None:
        self.file, self.config = CellFile(path), config
        self.cells: dict[CellKey, Cell] = {}
        self._by_computation: dict[Hashable, Cell] = {}
        self._originals: dict[Hashable, Cell] = {}  # by the computation of the default variant

    def refresh(self) -> None:
        r"""Reads the cells that were added to the file."""
        if not self.file.path.exists():
            return
        for cell in self.file.read():
            self._remove(cell.key)
            if mismatch(cell, self.config) is None:
                self._add(cell)

    def _remove(self, key: CellKey) -> None:
        old = self.cells.pop(key, None)
        if old is None:
            return
        for index in (self._by_computation, self._originals):
            for computation in [c for c, cell in index.items() if cell is old]:
                del index[computation]

    def _add(self, cell: Cell) -> None:
        self.cells[cell.key] = cell
        computation = computation_of(cell.key, self.config)
        if 'copied_from' not in cell.facts or computation not in self._by_computation:
            self._by_computation[computation] = cell
        if 'original' in cell.scores:
            self._originals.setdefault(self._default_variant(cell.key), cell)

    def copy(self, key: CellKey) -> Cell | None:
        r"""A copy of a finished cell with the same computation, from another
        table or under another name. It keeps the facts of that cell.
        """
        same = self._by_computation.get(computation_of(key, self.config))
        if same is None:
            return None
        source = same.facts.get('copied_from', table_name(same.key))
        return Cell(key, same.scores, same.histograms, {**same.facts, 'copied_from': source})

    def original(self, key: CellKey) -> Cell | None:
        r"""A finished cell with the same scores on the original graph, which
        do not depend on the variant of the generator.
        """
        return self._originals.get(self._default_variant(key))

    def _default_variant(self, key: CellKey) -> Hashable:
        return computation_of(replace(key, variant=''), self.config)

    def warn(self) -> None:
        r"""Warns about damaged lines and about cells with other settings."""
        self.file.warn()
        reasons = Counter(mismatch(cell, self.config) for cell in self.file.cells.values())
        parts = [f'{number} {reason}' for reason, number in reasons.items() if reason]
        if parts:
            count = len(self.file.cells) - reasons[None]
            warnings.warn(
                f'{count} cells of {self.file.path} count as not run: {", ".join(parts)}',
                stacklevel=3,
            )


def mismatch(cell: Cell, config: BenchmarkConfig) -> str | None:
    r"""Why a cell differs from what would be measured now, or :obj:`None`.

    Args:
        cell (Cell): A cell of a file.
        config (BenchmarkConfig): The settings of all cells.
    """
    try:
        computation_of(cell.key, config)
    except ValueError:
        return 'of tables that are not known'
    if has_other_protocol(cell):
        return 'measured by another protocol'
    wanted = settings_of(cell.key, config)
    found = {'training': FIRST_TRAINING, **cell.facts}
    if any(found.get(name) != wanted[name] for name in wanted if name != 'protocol'):
        return 'measured with other settings'
    return None


def has_other_protocol(cell: Cell) -> bool:
    r"""Whether the scores of a cell follow another protocol than today's."""
    experiment = EXPERIMENTS.get(cell.key.experiment)
    if experiment is None:
        return False
    return cell.facts.get('protocol', FIRST_PROTOCOL) != experiment.protocol


def settings_of(key: CellKey, config: BenchmarkConfig) -> dict[str, Any]:
    r"""The settings of a cell as they are stored in its facts. Cells with
    other settings are not used. Numbers of epochs follow from the protocol.
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


def table_name(key: CellKey) -> str:
    r"""The table of a cell, and its variant unless it is the default."""
    return f'{key.experiment}/{key.variant}' if key.variant else key.experiment
