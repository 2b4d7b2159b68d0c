r"""Cells, the scores of one model in one experiment, and files of them that survive a crash."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

KEY = re.compile(rb'\\"key\\": (\{[^{}]*\})')  # in a line, its quotes are escaped


@dataclass(frozen=True, order=True)
class CellKey:
    r"""Identifies a cell of a table."""

    experiment: str
    dataset: str
    level: str  # of the experiment, for instance '0' noisy edges
    model: str  # empty where no model is trained
    variant: str = ''  # of the generator; empty for the default
    seed: int = 0

    @classmethod
    def from_dict(cls, content: Any) -> CellKey:
        r"""Checks the content of a file, see :meth:`Cell.from_dict`."""
        if not isinstance(content, dict):
            raise ValueError('it has no key')
        *names, seed = asdict(key := cls(**content)).values()
        if not all(isinstance(name, str) for name in names) or type(seed) is not int:
            raise ValueError('its key is not made of names and a seed')
        return key


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
    line = json.dumps({'sha256': _digest(content), 'cell': content}) + '\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b'\n'  # by a killed process
        os.write(file, (('\n' if torn else '') + line).encode())
    finally:
        os.close(file)


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
