r"""Tables of experiments, ours beside the paper's, and how well scores in them agree."""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from typing import Any

from torch_geometric_cgt.benchmark.cells import Cell
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, CellKey, Experiment
from torch_geometric_cgt.benchmark.metrics import MEASURES, Estimate, Pair, estimate
from torch_geometric_cgt.benchmark.variants import reidentification_of

PAIRS = ('original', 'quantized', 'generated')
DISTANCES = ('generated to quantized', 'quantized to original')
STATISTICS = ('zero_vectors', 'duplicates')
METRIC_NAMES = {'auc': 'AUC'}  # metrics whose display name differs from their key
REMARKS = {
    'link': 'Scores are areas under the ROC curve (AUC). The paper does not name its measure of '
    'link prediction; its numbers are shown as printed.',
    'statistics': 'Wasserstein distances between the histograms of two sets of computation graphs; '
    '0 means that the histograms are equal. Quantized to original is the error that quantization '
    'alone causes.',
    'baselines': 'Methods k=... generate a graph; all other methods perturb the original graph.',
}
COLUMNS = ('original', 'quantized', 'generated', 'score')
LOWER_IS_BETTER = ('mse', 'max_abs')
MIN_PAIRS = 8  # without intervals, fewer pairs are not enough to call a result better


@dataclass(frozen=True)
class Value:
    r"""A column of a table, and the keys of its numbers in
    :obj:`Cell.scores`.
    """

    name: str
    column: str
    metric: str


@dataclass(frozen=True)
class Row:
    r"""One row: the cells of all seeds, and the row of the paper."""

    key: CellKey  # of seed 0
    cells: dict[int, Cell]  # seed
    paper: PaperRow | None = None
    metric: str = 'accuracy'

    @property
    def is_run(self) -> bool:
        return bool(self.cells)

    def runs(self, column: str, metric: str | None = None) -> dict[int, float]:
        r"""The number of each seed. Seeds without a finite number are left out."""
        name = metric or self.metric
        found = {seed: _number(cell, column, name) for seed, cell in sorted(self.cells.items())}
        return {seed: value for seed, value in found.items() if value is not None}

    def mean(self, column: str, metric: str | None = None) -> float | None:
        r"""The mean over seeds."""
        runs = self.runs(column, metric)
        return statistics.fmean(runs.values()) if runs else None

    def std(self, column: str, metric: str | None = None) -> float | None:
        r"""The sample standard deviation over seeds, if there are several."""
        runs = self.runs(column, metric)
        return statistics.stdev(runs.values()) if len(runs) > 1 else None

    def paper_mean(self, column: str) -> float | None:
        r"""The number that the paper prints for a column."""
        return self.paper.mean.get(column) if self.paper else None

    def pair(self) -> Pair | None:
        r"""The scores on the original and on the generated graph."""
        original, generated = self.runs('original'), self.runs('generated')
        runs = {s: (original[s], generated[s]) for s in original if s in generated}
        return Pair(self._graph, runs) if runs else None

    def paper_pair(self) -> Pair | None:
        r"""The paper's scores, as a pair of one seed."""
        if self.paper is None or not {'original', 'generated'} <= set(self.paper.mean):
            return None
        return Pair(self._graph, {0: (self.paper.mean['original'], self.paper.mean['generated'])})

    @property
    def _graph(self) -> tuple[str, ...]:
        return self.key.dataset, self.key.level, self.key.variant


@dataclass(frozen=True)
class ExperimentTable:
    r"""All rows of one experiment."""

    experiment: Experiment
    rows: list[Row]

    @property
    def is_run(self) -> bool:
        return any(row.is_run for row in self.rows)

    @property
    def kind(self) -> str:
        r"""What a row holds: a pair of scores, one score, or distances."""
        kinds = {'exchange': 'score', 'statistics': 'distances'}
        return kinds.get(self.experiment.measures, 'pairs')

    @property
    def metric_name(self) -> str:
        r"""The display name of the metric."""
        return METRIC_NAMES.get(self.experiment.metric, self.experiment.metric)

    @property
    def remark(self) -> str:
        r"""What a reader must know about the numbers; empty for most experiments."""
        return REMARKS.get(self.experiment.name, '')

    @property
    def column_names(self) -> dict[str, str]:
        r"""The display names of the columns of pairs."""
        name = 'perturbed or generated' if self.experiment.compares_methods else 'generated'
        return {**{column: column for column in PAIRS}, 'generated': name}

    @property
    def values(self) -> list[Value]:
        r"""The columns of numbers that a table shows."""
        if self.kind == 'pairs':
            columns = ('original', 'generated') if self.experiment.compares_methods else PAIRS
            return [Value(column, column, self.experiment.metric) for column in columns]
        if self.kind == 'score':
            return [Value('score', 'score', self.experiment.metric)]
        found = [c.scores for row in self.rows for c in row.cells.values()]
        names = dict.fromkeys([*DISTANCES, *(column for scores in found for column in scores)])
        return [
            Value(f'{statistic.replace("_", " ")}, {column}', column, statistic)
            for statistic in STATISTICS
            for column in names
        ]

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(row.key.dataset for row in self.rows))

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(row.key.variant for row in self.rows))

    def records(self) -> list[dict[str, Any]]:
        r"""The rows as plain numbers, :obj:`None` where a number is missing."""
        return [self._record(row) for row in self.rows]

    def _record(self, row: Row) -> dict[str, Any]:
        key = row.key
        out: dict[str, Any] = {'dataset': key.dataset, 'level': key.level, 'model': key.model}
        out['variant'] = key.variant
        out['status'] = 'run' if row.is_run else 'not run'
        out['seeds'] = len(row.cells)
        for value in self.values:
            out[value.name] = row.mean(value.column, value.metric)
            out[f'{value.name} std'] = row.std(value.column, value.metric)
            if value.metric == 'accuracy':
                out[f'{value.name} macro F1'] = row.mean(value.column, 'macro_f1')
        if self.kind != 'distances':
            for value in self.values:
                out[f'paper {value.name}'] = row.paper_mean(value.column)
            out['paper doubtful'] = row.paper.doubtful if row.paper else ''
        if self.experiment.compares_methods:
            chance = reidentification_of(key.variant)
            out['node re-identification'] = chance.node if chance else None
            out['edge re-identification'] = chance.edge if chance else None
        return out


def tables_of(
    cells: Mapping[CellKey, Cell], paper: Mapping[CellKey, PaperRow] | None = None
) -> list[ExperimentTable]:
    r"""The tables of all experiments.

    A table has a row for every planned cell, whether it was run or not. Cells
    that are not planned and rows that only the paper has are added.

    Args:
        cells (dict): The cells that were run.
        paper (dict, optional): The rows of the paper.
            (default: :func:`~torch_geometric_cgt.report.experiment_tables.read_paper`)
    """
    paper = read_paper() if paper is None else paper
    runs: dict[CellKey, dict[int, Cell]] = defaultdict(dict)
    for key, cell in sorted(cells.items()):
        runs[replace(key, seed=0)][key.seed] = cell
    planned = list(EXPERIMENTS.values())
    names = dict.fromkeys(key.experiment for key in runs if key.experiment not in EXPERIMENTS)
    others = [Experiment(name, name, 'level', (), (), ()) for name in names]
    return [_table(experiment, runs, paper) for experiment in [*planned, *others]]


def rows_not_run(table: ExperimentTable) -> str:
    r"""Lists the rows that were not run, such as ``PubMed (all); Cora, CS (noisy
    edges 2, 4)``. Empty if all rows were run.

    Args:
        table (ExperimentTable): The table.
    """
    names: dict[str, list[str]] = defaultdict(list)  # what is missing: of which datasets
    for dataset in table.datasets:
        rows = [row for row in table.rows if row.key.dataset == dataset]
        if all(row.is_run for row in rows):
            continue
        variants = dict.fromkeys(row.key.variant for row in rows)
        parts = {v: _missing(table, [r for r in rows if r.key.variant == v]) for v in variants}
        if len(set(parts.values())) == 1:
            names[next(iter(parts.values()))].append(dataset)
            continue
        for what in filter(None, dict.fromkeys(parts.values())):
            found = [v or 'default' for v, part in parts.items() if part == what]
            names[what].append(f'{dataset} [{", ".join(found)}]')
    return '; '.join(f'{", ".join(who)} ({what})' for what, who in names.items())


def _table(
    experiment: Experiment,
    runs: Mapping[CellKey, dict[int, Cell]],
    paper: Mapping[CellKey, PaperRow],
) -> ExperimentTable:
    extra = [key for key in [*runs, *paper] if key.experiment == experiment.name]
    keys = list(dict.fromkeys([*experiment.keys(), *extra]))
    place = {name: i for i, name in enumerate(dict.fromkeys(key.dataset for key in keys))}
    keys.sort(key=lambda key: place[key.dataset])  # rows of one dataset are adjacent
    rows = [Row(k, runs.get(k, {}), paper.get(k), experiment.metric) for k in keys]
    return ExperimentTable(experiment, rows)


def _number(cell: Cell, column: str, metric: str) -> float | None:
    scores = cell.scores.get(column)
    value = scores.get(metric) if isinstance(scores, dict) else None
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _missing(table: ExperimentTable, rows: Sequence[Row]) -> str:
    r"""What is missing among the rows of one dataset and variant."""
    missing = [row for row in rows if not row.is_run]
    if len(missing) in (0, len(rows)):
        return 'all' if missing else ''
    levels: dict[str, str] = {}
    for level in dict.fromkeys(row.key.level for row in missing):
        models = [row.key.model for row in missing if row.key.level == level]
        whole = len(models) == sum(row.key.level == level for row in rows)
        levels[level] = '' if whole else ', '.join(models)
    if len({row.key.level for row in rows}) == 1:
        return next(iter(levels.values()))
    found = [f'{level} with {models}' if models else level for level, models in levels.items()]
    return f'{table.experiment.level_name} {", ".join(found)}'


@dataclass(frozen=True)
class PaperRow:
    r"""One row of a table of the paper."""

    mean: dict[str, float]  # column: accuracy
    std: dict[str, float]
    doubtful: str = ''  # why the row may be wrong; mostly empty


def read_paper() -> dict[CellKey, PaperRow]:
    r"""Reads the tables of the paper. The seed of all keys is 0."""
    file = resources.files('torch_geometric_cgt.report') / 'paper.csv'
    out = {}
    for line in csv.DictReader(file.read_text(encoding='utf-8').splitlines()):
        key = CellKey(
            line['experiment'], line['dataset'], line['level'], line['model'], line['variant']
        )
        mean = {c: float(line[c]) for c in COLUMNS if line[c]}
        std = {c: float(line[f'{c}_std']) for c in COLUMNS if line.get(f'{c}_std')}
        out[key] = PaperRow(mean, std, line['doubtful'])
    return out


@dataclass(frozen=True)
class AgreementSummary:
    r"""The measures of agreement over the rows of one dataset, or of all."""

    experiment: str
    variant: str
    dataset: str  # empty for all
    asked: int  # planned rows
    run: int  # rows that were run
    num_same: int  # rows that were run and that the paper has
    num_paper: int
    ours: dict[str, Estimate]  # measure
    common: dict[str, Estimate]  # ours, on rows that the paper has too
    same: dict[str, Estimate]  # the paper's, on rows that were run
    paper: dict[str, Estimate]  # the paper's, on all of its rows

    @property
    def is_claim(self) -> bool:
        r"""Whether we claim to be better than the paper. Variants are ablations
        and controls, which should be worse, except those of the privacy table.
        """
        return not self.variant or self.experiment == 'privacy'

    def is_better(self, name: str) -> bool:
        r"""Whether a measure is better than the paper's on the same rows."""
        return _is_better(name, self.common[name].value, self.same[name].value)

    def is_clear(self, name: str) -> bool:
        r"""Whether a measure is better with its whole interval. With one seed
        there is no interval, and at least :obj:`MIN_PAIRS` pairs are required.
        """
        ours, theirs = self.common[name], self.same[name].value
        if ours.low is None or ours.high is None:
            return self.is_better(name) and self.num_same >= MIN_PAIRS
        return all(_is_better(name, end, theirs) for end in (ours.low, ours.high))

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)

    def record(self) -> dict[str, Any]:
        r"""All numbers as one line of a CSV file."""
        out: dict[str, Any] = {
            'experiment': self.experiment,
            'variant': self.variant,
            'dataset': self.dataset or 'all',
            'pairs asked': self.asked,
            'pairs run': self.run,
            'paper pairs same': self.num_same,
            'paper pairs': self.num_paper,
        }
        for name in MEASURES:
            found = self.ours[name]
            out |= {name: found.value, f'{name} low': found.low, f'{name} high': found.high}
            out[f'paper same {name}'] = self.same[name].value
            out[f'paper {name}'] = self.paper[name].value
        return out


def summarize_agreement(table: ExperimentTable) -> list[AgreementSummary]:
    r"""For each variant, a summary of each dataset and then one of all datasets.

    Args:
        table (ExperimentTable): The table.
    """
    out = []
    for variant in table.variants:
        rows = [row for row in table.rows if row.key.variant == variant]
        for dataset in [*dict.fromkeys(row.key.dataset for row in rows), '']:
            part = [row for row in rows if dataset in ('', row.key.dataset)]
            out.append(_summary(table, variant, dataset, part))
    return out


def _summary(
    table: ExperimentTable, variant: str, dataset: str, rows: Sequence[Row]
) -> AgreementSummary:
    is_run = [row.pair() is not None if table.kind == 'pairs' else row.is_run for row in rows]
    has_paper = [row.paper is not None for row in rows]
    ours = [(row, pair) for row in rows if (pair := row.pair())]
    paper = [(row, pair) for row in rows if (pair := row.paper_pair())]
    same = [pair for row, pair in paper if row.pair()]
    return AgreementSummary(
        experiment=table.experiment.name,
        variant=variant,
        dataset=dataset,
        asked=len(rows),
        run=sum(is_run),
        num_same=sum(a and b for a, b in zip(is_run, has_paper, strict=True)),
        num_paper=sum(has_paper),
        ours=estimate([pair for _, pair in ours]),
        common=estimate([pair for row, pair in ours if row.paper_pair()]),
        same=estimate(same),
        paper=estimate([pair for _, pair in paper]),
    )


def _is_better(name: str, ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return False
    return ours < theirs if name in LOWER_IS_BETTER else ours > theirs
