r"""Cells of a benchmark: one JSON line each, written when it is finished."""

import json
from pathlib import Path


def read_cells(path: Path) -> list[dict]:
    r"""The cells that are there."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def add_cell(path: Path, cell: dict) -> None:
    r"""Adds a finished cell."""
    with open(path, 'a') as file:
        file.write(json.dumps(cell) + '\n')
