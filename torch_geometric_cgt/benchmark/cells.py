r"""Cells, the scores of one model in one experiment: files of them, and which are finished."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.experiments import (
    EXPERIMENTS,
    BenchmarkConfig,
    CellKey,
    computation_of,
)
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig
from torch_geometric_cgt.benchmark.link_prediction import link_config
from torch_geometric_cgt.utils.files import append_line

KEY = re.compile(rb'\\"key\\": (\{[^{}]*\})')  # in a line, its quotes are escaped
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


@dataclass(frozen=True)
class Cell:
    r"""The scores and statistics of one cell."""

    key: CellKey
    scores: dict[str, dict[str, float]] = field(default_factory=dict)  # column, metric
    histograms: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # statistic, column
    facts: dict[str, Any] = field(default_factory=dict)  # seconds, date, commit, command

    @classmethod
    def from_dict(cls, content: Any) -> Cell:
        r"""Checks the content of a file. A :class:`ValueError` says what is
        wrong with it.
        """
        if not isinstance(content, dict):
            raise ValueError('it holds no cell')
        cell = cls(**{**content, 'key': CellKey.from_dict(content.get('key'))})
        if not _is_table(cell.scores, lambda score: isinstance(score, int | float)):
            raise ValueError('its scores are not numbers by name')
        if not any(cell.scores.values()):
            raise ValueError('it has no scores')
        if not _is_table(cell.histograms, lambda counts: isinstance(counts, list)):
            raise ValueError('its histograms are not lists by name')
        if not isinstance(cell.facts, dict):
            raise ValueError('its facts have no names')
        return cell


@dataclass(frozen=True)
class Damage:
    r"""A damaged line of a file."""

    line: int
    reason: str
    key: CellKey | None  # of its cell, if the key is readable


class CellFile:
    r"""The cells of a file that other processes may append to.

    Args:
        path (Path): The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[CellKey, Cell] = {}  # the last one of each key
        self.damage: list[Damage] = []  # without cells that a later line repeats
        self._num_lines = 0
        self._num_bytes = 0

    def read(self) -> list[Cell]:
        r"""Reads the lines that were added and returns their cells."""
        with self.path.open('rb') as file:
            file.seek(self._num_bytes)
            *lines, rest = file.read().split(b'\n')
        self.damage = [d for d in self.damage if d.line <= self._num_lines]
        first, self._num_lines = self._num_lines + 1, self._num_lines + len(lines)
        self._num_bytes += sum(len(line) + 1 for line in lines)
        # The last line may still be incomplete. It is read again the next time.
        found = [self._read_line(i, line) for i, line in enumerate([*lines, rest], start=first)]
        return [cell for cell in found if cell is not None]

    def _read_line(self, number: int, line: bytes) -> Cell | None:
        if not line.strip():
            return None
        try:
            cell = _parse(line)
        except (ValueError, TypeError) as error:
            self.damage.append(Damage(number, str(error), _key_in(line)))
            return None
        self.cells[cell.key] = cell
        self.damage = [damage for damage in self.damage if damage.key != cell.key]
        return cell

    def warn(self) -> None:
        r"""Warns about damaged lines."""
        for damage in self.damage:
            text = f'Line {damage.line} of {self.path} is damaged: {damage.reason}'
            warnings.warn(text, stacklevel=3)


def add_cell(path: Path, cell: Cell) -> None:
    r"""Appends a finished cell to a file as one line with a checksum. The line
    is written in one call, so that several processes can share a file.
    """
    content = json.dumps(asdict(cell), sort_keys=True)
    append_line(path, json.dumps({'sha256': _digest(content), 'cell': content}))


def read_cells(paths: Iterable[Path]) -> dict[CellKey, Cell]:
    r"""All cells of some files, the last one of each key. Damaged lines are
    left out with a warning, unless a later line of the file repeats the cell.
    """
    cells: dict[CellKey, Cell] = {}
    for path in paths:
        file = CellFile(path)
        file.read()
        file.warn()
        cells.update(file.cells)
    return cells


def _parse(line: bytes) -> Cell:
    entry = json.loads(line)
    content = entry.get('cell') if isinstance(entry, dict) else None
    if not isinstance(content, str):
        raise ValueError('it holds no cell')
    if _digest(content) != entry.get('sha256'):
        raise ValueError('its checksum is wrong')
    return Cell.from_dict(json.loads(content))


def _key_in(line: bytes) -> CellKey | None:
    r"""The key in a damaged line, if the key itself is intact."""
    found = KEY.search(line)
    if found is None:
        return None
    try:
        return CellKey.from_dict(json.loads(json.loads(b'"' + found[1] + b'"')))
    except (ValueError, TypeError):
        return None


def _is_table(value: Any, is_entry: Callable[[Any], bool]) -> bool:
    r"""Whether it is a dictionary of dictionaries of entries."""
    return isinstance(value, dict) and all(
        isinstance(row, dict) and all(map(is_entry, row.values())) for row in value.values()
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
