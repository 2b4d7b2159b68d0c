r"""The results of a benchmark: tables, what they say, and where the numbers come from."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.cell_index import has_other_protocol
from torch_geometric_cgt.benchmark.cells import Cell, CellKey, read_cells
from torch_geometric_cgt.report.method_tables import shown_table
from torch_geometric_cgt.report.missing import not_run
from torch_geometric_cgt.report.notes import Note, read_notes
from torch_geometric_cgt.report.provenance import runs_of
from torch_geometric_cgt.report.summary import Summary, summarize
from torch_geometric_cgt.report.table_files import as_json, as_text, write_tables
from torch_geometric_cgt.report.tables import ExperimentTable, tables_of
from torch_geometric_cgt.report.template import can_render
from torch_geometric_cgt.report.text_tables import TextTable, summary_table
from torch_geometric_cgt.report.verdicts import Verdict, verdicts_of
from torch_geometric_cgt.utils.files import write_text


@dataclass(frozen=True)
class Results:
    r"""All experiments with their summaries, and the runs behind them."""

    tables: list[ExperimentTable]
    summaries: dict[str, list[Summary]]  # experiment
    runs: list[dict[str, Any]]
    verdicts: list[Verdict]
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def from_cells(cls, cells: Mapping[CellKey, Cell]) -> Results:
        r"""Computes everything from cells."""
        return cls._of(tables_of(cells), runs_of(cells.values()))

    @classmethod
    def _of(cls, tables: list[ExperimentTable], runs: list[dict[str, Any]]) -> Results:
        summaries = {table.experiment.name: summarize(table) for table in tables}
        return cls(tables, summaries, runs, verdicts_of(tables, summaries))

    def only_run(self) -> Results:
        r"""The same without what was not run."""
        tables = [
            replace(table, rows=[row for row in table.rows if row.is_run])
            for table in self.tables
            if table.is_run
        ]
        return Results._of(tables, self.runs)

    def judged_by(self, cells: Mapping[CellKey, Cell]) -> Results:
        r"""The same with the verdicts of more cells, on the experiments that
        are here: controls have their default in another table.
        """
        tables = tables_of(cells)
        names = [table.experiment.name for table in self.tables]
        summaries = {table.experiment.name: summarize(table) for table in tables}
        verdicts = [v for v in verdicts_of(tables, summaries) if v.experiment in names]
        return replace(self, verdicts=verdicts)

    def with_notes(self, path: Path) -> Results:
        r"""The same with what a person says about it.

        Args:
            path (Path): A file for
                :func:`~torch_geometric_cgt.report.notes.read_notes`.
        """
        names = [table.experiment.name for table in self.tables]
        return replace(self, notes=read_notes(path, names))

    def said_of(self, table: ExperimentTable) -> tuple[list[Verdict], list[Note]]:
        r"""Verdicts and notes about one experiment, what was missed first."""
        name = table.experiment.name
        verdicts = [verdict for verdict in self.verdicts if verdict.experiment == name]
        verdicts.sort(key=lambda verdict: verdict.holds)
        return verdicts, [note for note in self.notes if note.experiment == name]

    def headline(self, intervals: bool = True) -> TextTable:
        r"""One line per experiment with the default generator alone, over all
        datasets.
        """
        lines = []
        for table in self.tables:
            if table.kind == 'pairs' and table.experiment.variants == ('',):
                found = self.summaries[table.experiment.name]
                lines += [(_name(table), s) for s in found if not (s.dataset or s.variant)]
        return summary_table('The experiments against the paper', 'Experiment', lines, intervals)

    def variants(self, table: ExperimentTable, intervals: bool = True) -> TextTable:
        r"""One line per variant of one experiment, over all datasets."""
        found = [s for s in self.summaries[table.experiment.name] if not s.dataset]
        lines = [(s.variant or 'default', s) for s in found]
        label = table.experiment.variant_name.capitalize()
        return summary_table(table.experiment.title, label, lines, intervals)

    def text(self) -> str:
        r"""What is shown in a terminal: measures, and what they mean."""
        tables = [self.headline(intervals=False)]
        for table in self.tables:
            if table.is_run and table.kind == 'pairs' and table.variants != ['']:
                tables.append(self.variants(table, intervals=False))
        parts = [f'{table.title}\n\n{as_text(table)}' for table in tables if table.body]
        for table in self.tables:
            if verdicts := self.said_of(table)[0]:
                parts.append('\n'.join([table.experiment.title, *(f'  {v}' for v in verdicts)]))
        return '\n\n'.join(parts)

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
            verdicts, notes = self.said_of(table)
            content['verdicts'] = [verdict.to_dict() for verdict in verdicts]
            content['notes'] = [{'dataset': n.dataset, 'text': n.text} for n in notes]
            content['not_run'] = not_run(table)
            content['metric'] = e.metric
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
    old = [key for key, cell in cells.items() if has_other_protocol(cell)]
    if old:
        tables = ', '.join(sorted({key.experiment for key in old}))
        warnings.warn(
            f'{len(old)} cells ({tables}) were measured by another protocol and are left out',
            stacklevel=2,
        )
        cells = {key: cell for key, cell in cells.items() if key not in old}
    if not cells:
        looked = ', '.join(f"'{path}'" for path in paths)
        raise ValueError(f'There is no valid cell in {looked}')
    return Results.from_cells(cells)


def read_beside(path: Path, cells: Mapping[CellKey, Cell]) -> dict[CellKey, Cell]:
    r"""All cells of a file that were measured with the settings of some.

    Args:
        path (Path): The file.
        cells (dict): Some cells.
    """
    settings = [cell.facts.get('config') for cell in cells.values()]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # whoever ran them has warned of damaged lines
        found = read_cells([path])
    return {k: cell for k, cell in found.items() if cell.facts.get('config') in settings}


def write_results(folder: Path, results: Results) -> list[Path]:
    r"""Writes :obj:`report.json`, :obj:`report.md`, the tables as CSV and LaTeX
    and, with the :obj:`report` extra, :obj:`report.html`.

    Args:
        folder (Path): Where to write.
        results (Results): What to write.
    """
    from torch_geometric_cgt.report.markdown_page import render_markdown

    paths = [folder / 'report.json', folder / 'report.md']
    write_text(paths[0], as_json(results.to_dict()))
    write_text(paths[1], render_markdown(results))
    summaries = [s.record() for found in results.summaries.values() for s in found]
    tables = {'summary': (summaries, results.headline())}
    for table in results.tables:
        name = table.experiment.name
        tables[name] = (table.records(), shown_table(table))
        if table.kind == 'pairs':
            found = [summary.record() for summary in results.summaries[name]]
            tables[f'{name} agreement'] = (found, results.summary(table))
    paths += write_tables(folder / 'tables', tables)
    if can_render():
        from torch_geometric_cgt.report.page import render_page

        paths.append(folder / 'report.html')
        write_text(paths[-1], render_page(results))
    return paths


def _name(table: ExperimentTable) -> str:
    e = table.experiment
    return f'{e.scenario}. {e.title}' if e.scenario else e.title
