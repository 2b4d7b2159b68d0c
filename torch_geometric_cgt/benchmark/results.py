r"""The results of a benchmark: tables, what they say, and where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.cells import Cell, CellKey, read_cells
from torch_geometric_cgt.benchmark.method_tables import shown_table
from torch_geometric_cgt.benchmark.provenance import runs_of
from torch_geometric_cgt.benchmark.summary import Summary, summarize
from torch_geometric_cgt.benchmark.table_files import as_json, write_tables
from torch_geometric_cgt.benchmark.tables import ExperimentTable, tables_of
from torch_geometric_cgt.benchmark.template import can_render
from torch_geometric_cgt.benchmark.text_tables import TextTable, summary_table
from torch_geometric_cgt.data.files import write_text


@dataclass(frozen=True)
class Results:
    r"""All experiments with their summaries, and the runs behind them."""

    tables: list[ExperimentTable]
    summaries: dict[str, list[Summary]]  # experiment
    runs: list[dict[str, Any]]

    @classmethod
    def from_cells(cls, cells: Mapping[CellKey, Cell]) -> Results:
        r"""Computes everything from cells."""
        tables = tables_of(cells)
        summaries = {table.experiment.name: summarize(table) for table in tables}
        return cls(tables, summaries, runs_of(cells.values()))

    def only_run(self) -> Results:
        r"""The same without what was not run."""
        tables = [
            replace(table, rows=[row for row in table.rows if row.is_run])
            for table in self.tables
            if table.is_run
        ]
        return Results(tables, {t.experiment.name: summarize(t) for t in tables}, self.runs)

    def headline(self, intervals: bool = True) -> TextTable:
        r"""One line per experiment and variant, over all datasets."""
        lines = []
        for table in self.tables:
            for summary in self.summaries[table.experiment.name]:
                if not summary.dataset:
                    lines.append((_name(table, summary), summary))
        return summary_table('The experiments against the paper', 'Experiment', lines, intervals)

    def summary(self, table: ExperimentTable) -> TextTable:
        r"""One line per dataset of one experiment, and one over all."""
        lines = []
        for summary in self.summaries[table.experiment.name]:
            if len(table.datasets) == 1 and not summary.dataset:
                continue  # it would say the same again
            name = summary.dataset or 'All'
            if table.variants != ['']:
                name += f', {summary.variant or "default"}'
            lines.append((name, summary))
        return summary_table(f'{table.experiment.title}: agreement', 'Dataset', lines)

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        experiments = []
        for table in self.tables:
            e = table.experiment
            content: dict[str, Any] = {'name': e.name, 'title': e.title, 'scenario': e.scenario}
            content |= {'level_name': e.level_name, 'rows': table.records()}
            content['summaries'] = [s.to_dict() for s in self.summaries[e.name]]
            experiments.append(content)
        return {'experiments': experiments, 'runs': self.runs}


def read_results(paths: Iterable[Path]) -> Results:
    r"""The results of all cells in some files.

    Args:
        paths (list[Path]): Files of cells, or folders with such files
            (``*.jsonl``).
    """
    paths, files = list(paths), []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"There is no file or folder '{path}'")
        files += sorted(path.glob('*.jsonl')) if path.is_dir() else [path]
    cells = read_cells(files)
    if not cells:
        looked = ', '.join(f"'{path}'" for path in paths)
        raise ValueError(f'There is no valid cell in {looked}')
    return Results.from_cells(cells)


def write_results(folder: Path, results: Results) -> list[Path]:
    r"""Writes :obj:`report.json`, the tables as CSV and LaTeX and, with the
    :obj:`report` extra, :obj:`report.html`.

    Args:
        folder (Path): Where to write.
        results (Results): What to write.
    """
    paths = [folder / 'report.json']
    write_text(paths[0], as_json(results.to_dict()))
    summaries = [s.record() for found in results.summaries.values() for s in found]
    tables = {'summary': (summaries, results.headline())}
    for table in results.tables:
        tables[table.experiment.name] = (table.records(), shown_table(table))
    paths += write_tables(folder / 'tables', tables)
    if can_render():
        from torch_geometric_cgt.benchmark.page import render_page

        paths.append(folder / 'report.html')
        write_text(paths[-1], render_page(results))
    return paths


def _name(table: ExperimentTable, summary: Summary) -> str:
    e = table.experiment
    if table.variants != ['']:
        return f'{e.name.capitalize()}: {summary.variant or "default"}'
    return f'{e.scenario}. {e.title}' if e.scenario else e.title
