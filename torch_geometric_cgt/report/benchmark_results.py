r"""The results of a benchmark: tables, agreement, verdicts, notes, and the runs behind them."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.cells import Cell, has_other_protocol, read_cells
from torch_geometric_cgt.benchmark.experiments import DATASETS, CellKey, find_experiment
from torch_geometric_cgt.datasets import SOURCES
from torch_geometric_cgt.report.claim_verdicts import Verdict, judge_claims
from torch_geometric_cgt.report.experiment_tables import (
    AgreementSummary,
    ExperimentTable,
    rows_not_run,
    summarize_agreement,
    tables_of,
)
from torch_geometric_cgt.report.text_tables import TextTable, summary_table

RUN = ('commit', 'version', 'settings', 'command')  # what the cells of one run share
HEADING = '## '


@dataclass(frozen=True)
class Note:
    r"""What a person writes about an experiment, or about one dataset in it."""

    experiment: str
    dataset: str  # empty if it is about all datasets
    text: str

    @property
    def paragraphs(self) -> list[str]:
        r"""The text, split at empty lines."""
        return [' '.join(part.split()) for part in self.text.split('\n\n') if part.strip()]


@dataclass(frozen=True)
class Results:
    r"""The tables of all experiments, and everything that follows from them."""

    tables: list[ExperimentTable]
    summaries: dict[str, list[AgreementSummary]]  # by experiment
    runs: list[dict[str, Any]]
    verdicts: list[Verdict]
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def from_cells(cls, cells: Mapping[CellKey, Cell]) -> Results:
        r"""Computes the results of some cells."""
        return cls._of(tables_of(cells), measured_runs(cells.values()))

    @classmethod
    def _of(cls, tables: list[ExperimentTable], runs: list[dict[str, Any]]) -> Results:
        summaries = {table.experiment.name: summarize_agreement(table) for table in tables}
        return cls(tables, summaries, runs, judge_claims(tables, summaries))

    def only_run(self) -> Results:
        r"""The same results without the rows that were not run."""
        tables = [
            replace(table, rows=[row for row in table.rows if row.is_run])
            for table in self.tables
            if table.is_run
        ]
        return Results._of(tables, self.runs)

    def with_verdicts_from(self, cells: Mapping[CellKey, Cell]) -> Results:
        r"""The same results with verdicts that are computed from more cells.
        Controls, for instance, are compared with the default generator, whose
        cells are in another table.

        Args:
            cells (dict): The cells. Verdicts on experiments that are not in
                these results are left out.
        """
        tables = tables_of(cells)
        names = [table.experiment.name for table in self.tables]
        summaries = {table.experiment.name: summarize_agreement(table) for table in tables}
        verdicts = [v for v in judge_claims(tables, summaries) if v.experiment in names]
        return replace(self, verdicts=verdicts)

    def with_notes(self, path: Path) -> Results:
        r"""The same results with notes.

        Args:
            path (Path): A file for :func:`read_notes`.
        """
        names = [table.experiment.name for table in self.tables]
        return replace(self, notes=read_notes(path, names))

    def comments_on(self, table: ExperimentTable) -> tuple[list[Verdict], list[Note]]:
        r"""The verdicts on an experiment, those that were missed first, and the
        notes about it.
        """
        name = table.experiment.name
        verdicts = [verdict for verdict in self.verdicts if verdict.experiment == name]
        verdicts.sort(key=lambda verdict: verdict.holds)
        return verdicts, [note for note in self.notes if note.experiment == name]

    def headline(self, intervals: bool = True) -> TextTable:
        r"""One line per experiment that has the default generator only, over all
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
        r"""Measures of agreement and verdicts, for a terminal."""
        tables = [self.headline(intervals=False)]
        for table in self.tables:
            if table.is_run and table.kind == 'pairs' and table.variants != ['']:
                tables.append(self.variants(table, intervals=False))
        parts = [f'{table.title}\n\n{table.to_text()}' for table in tables if table.body]
        for table in self.tables:
            if verdicts := self.comments_on(table)[0]:
                parts.append('\n'.join([table.experiment.title, *(f'  {v}' for v in verdicts)]))
        return '\n\n'.join(parts)

    def summary(self, table: ExperimentTable) -> TextTable:
        r"""One line per dataset of one experiment, and one over all datasets."""
        lines = []
        for summary in self.summaries[table.experiment.name]:
            if len(table.datasets) == 1 and not summary.dataset:
                continue  # the same as the line of the only dataset
            name = summary.dataset or 'All'
            if table.variants != ['']:
                name += f', {summary.variant or "default"}'
            lines.append((name, summary))
        return summary_table(f'{table.experiment.title}: agreement', 'Dataset', lines)

    def to_dict(self) -> dict[str, Any]:
        r"""The content of :obj:`report.json`."""
        experiments = []
        for table in self.tables:
            e = table.experiment
            content: dict[str, Any] = {'name': e.name, 'title': e.title, 'scenario': e.scenario}
            content |= {'level_name': e.level_name, 'rows': table.records()}
            content['summaries'] = [s.to_dict() for s in self.summaries[e.name]]
            verdicts, notes = self.comments_on(table)
            content['verdicts'] = [verdict.to_dict() for verdict in verdicts]
            content['notes'] = [{'dataset': n.dataset, 'text': n.text} for n in notes]
            content['not_run'] = rows_not_run(table)
            content['metric'] = e.metric
            experiments.append(content)
        return {'experiments': experiments, 'runs': self.runs}


def read_results(paths: Iterable[Path]) -> Results:
    r"""Reads cells and computes their results.

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


def read_same_settings(path: Path, cells: Mapping[CellKey, Cell]) -> dict[CellKey, Cell]:
    r"""Reads the cells of a file that have the same settings as any of the given
    cells.

    Args:
        path (Path): The file.
        cells (dict): The given cells.
    """
    settings = [cell.facts.get('config') for cell in cells.values()]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the run has warned of damaged lines already
        found = read_cells([path])
    return {k: cell for k, cell in found.items() if cell.facts.get('config') in settings}


def read_notes(path: Path, experiments: Collection[str] = ()) -> list[Note]:
    r"""Reads a Markdown file whose headings are ``## experiment`` or ``##
    experiment, dataset``. Text above the first heading is left out.

    Args:
        path (Path): The file.
        experiments (list[str], optional): Names that are valid in addition to
            the planned experiments. (default: :obj:`()`)
    """
    out: list[Note] = []
    blocks = ('\n' + path.read_text(encoding='utf-8')).split('\n' + HEADING)[1:]
    for block in blocks:
        heading, _, text = block.partition('\n')
        name, _, dataset = (part.strip() for part in heading.partition(','))
        try:
            experiment = name if name in experiments else find_experiment(name).name
        except ValueError as error:
            raise ValueError(f"Heading '{HEADING}{heading}' of '{path}': {error}") from error
        if dataset and dataset not in {*DATASETS, *SOURCES}:
            raise ValueError(
                f"Heading '{HEADING}{heading}' of '{path}': unknown dataset '{dataset}'; choose "
                f'from {sorted({*DATASETS, *SOURCES})}'
            )
        if text.strip():
            out.append(Note(experiment, dataset, text.strip()))
    return out


def measured_runs(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    r"""Groups cells by code version, settings and command, with dates and times.

    :obj:`seconds` is the time to train and score GNNs, :obj:`build_seconds` the
    time to build their graphs. A build that several cells share counts once, in
    the first run that has it. A cell that was copied from another table adds no
    time.

    Args:
        cells (list[Cell]): All cells.
    """
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        run = (cell.key.experiment, *(_fact(cell, name) for name in RUN))
        groups[run].append(cell)
    out, builds = [], set()
    for (experiment, *shared), part in groups.items():
        dates = sorted(_text(cell.facts['date']) for cell in part if cell.facts.get('date'))
        build_seconds = 0.0
        measured = [cell for cell in part if 'copied_from' not in cell.facts]
        for cell in measured:
            # Cells name no build. The same time to a tenth of a second means the same build.
            key, seconds = cell.key, _seconds(cell, 'build_seconds')
            build = (key.dataset, key.variant, key.seed, seconds, *shared)
            if build not in builds:
                builds.add(build)
                build_seconds += seconds
        out.append(
            {
                'experiment': experiment,
                'cells': len(part),
                'seeds': sorted({cell.key.seed for cell in part}),
                'first': dates[0] if dates else '',
                'last': dates[-1] if dates else '',
                'copied': len(part) - len(measured),
                'seconds': sum(_seconds(cell, 'seconds') for cell in measured),
                'build_seconds': build_seconds,
                **dict(zip(RUN, shared, strict=True)),
            }
        )
    return out


def _name(table: ExperimentTable) -> str:
    e = table.experiment
    return f'{e.scenario}. {e.title}' if e.scenario else e.title


def _fact(cell: Cell, name: str) -> str:
    if name != 'settings':
        return _text(cell.facts.get(name))
    config = cell.facts.get('config')
    known = config if isinstance(config, dict) else {'config': config}
    return _text({**known, 'protocol': cell.facts.get('protocol')})


def _seconds(cell: Cell, name: str) -> float:
    found = cell.facts.get(name)
    return float(found) if isinstance(found, int | float) else 0.0


def _text(fact: Any) -> str:
    if isinstance(fact, dict):
        known = {name: value for name, value in fact.items() if value is not None}
        return ', '.join(f'{name} = {_text(value)}' for name, value in known.items())
    if isinstance(fact, list):
        return ' '.join(map(str, fact))
    return '' if fact is None else str(fact)
