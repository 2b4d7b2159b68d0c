r"""How far a benchmark is: cells that are finished, the last of them, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

from torch_geometric_cgt.benchmark.cells import Cell, CellKey
from torch_geometric_cgt.benchmark.graphs import GraphSpec

FORMAT = '{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]'


class Progress:
    r"""A bar of cells.

    The time left counts cells and graphs apart: one that was not begun takes
    as long as those that were, before its first cell.

    Args:
        groups (dict): The cells of each graph.
        jobs (int): The number of graphs at a time.
        log (bool): Whether to show it.
    """

    def __init__(
        self, groups: Mapping[GraphSpec, Sequence[CellKey]], jobs: int, log: bool = True
    ) -> None:
        self.left = {spec: len(keys) for spec, keys in groups.items()}
        self.jobs = jobs
        self._begun: dict[GraphSpec, float] = {}
        self._graph_seconds: dict[GraphSpec, float] = {}
        self._cell_seconds: list[float] = []
        total = sum(self.left.values())
        self._bar = tqdm(
            total=total, desc='benchmark', unit='cell', bar_format=FORMAT, disable=not log
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def begin(self, spec: GraphSpec) -> None:
        r"""Notes that the work on a graph begins."""
        self._begun[spec] = time.monotonic()
        self._show(spec.dataset, spec.variant, 'begins')

    def add(self, spec: GraphSpec, cell: Cell) -> None:
        r"""Notes a finished cell of a graph."""
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

    def seconds_left(self) -> float | None:
        r"""An estimate, if a cell was measured."""
        if not self._cell_seconds:
            return None
        graphs = [spec for spec, count in self.left.items() if count]
        new = [spec for spec in graphs if spec not in self._graph_seconds]
        seconds = sum(self.left.values()) * _mean(self._cell_seconds)
        seconds += len(new) * _mean(list(self._graph_seconds.values()))
        return seconds / max(1, min(self.jobs, len(graphs)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
