r"""Cells: what one model scored on the graphs of one experiment, kept in a file that survives."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, order=True)
class CellKey:
    r"""Which cell of which table."""

    experiment: str
    dataset: str
    level: str  # of the experiment, '0' noisy edges for instance
    model: str  # empty where no model is trained
    variant: str = ''  # what is changed about the generator; empty for the default
    seed: int = 0


@dataclass(frozen=True)
class Cell:
    r"""Scores and statistics of one cell."""

    key: CellKey
    scores: dict[str, dict[str, float]] = field(default_factory=dict)  # column, metric
    histograms: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # statistic, column
    facts: dict[str, Any] = field(default_factory=dict)  # seconds, date, commit, command

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Cell:
        return cls(**{**content, 'key': CellKey(**content['key'])})


def add_cell(path: Path, cell: Cell) -> None:
    r"""Adds a finished cell to a file: one line, written at once, with its
    checksum. Processes may add to one file at the same time.
    """
    content = json.dumps(asdict(cell), sort_keys=True)
    line = json.dumps({'sha256': _digest(content), 'cell': content}) + '\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b'\n'  # by a run that was killed
        os.write(file, (('\n' if torn else '') + line).encode())
    finally:
        os.close(file)


def read_cells(paths: Iterable[Path]) -> dict[CellKey, Cell]:
    r"""All cells of some files, the last one of each key. Damaged lines are
    left out with a warning: their cells count as not run.
    """
    cells: dict[CellKey, Cell] = {}
    for path in paths:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                entry = json.loads(line)
                if _digest(entry['cell']) != entry['sha256']:
                    raise ValueError('its checksum is wrong')
                cell = Cell.from_dict(json.loads(entry['cell']))
            except (ValueError, KeyError, TypeError) as error:
                warnings.warn(f'Line {number} of {path} is damaged: {error}', stacklevel=2)
                continue
            cells[cell.key] = cell
    return cells


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
