r"""Tables as a person reads them: every number as text, in whatever is written from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_geometric_cgt.benchmark.metrics import MEASURES, Estimate
from torch_geometric_cgt.report.summary import Summary
from torch_geometric_cgt.report.tables import ExperimentTable, Row, Value

NOT_RUN = 'not run'
NOTHING = 'n/a'
MEASURE_NAMES = {
    'mse': 'MSE',
    'max_abs': 'Largest gap',
    'pearson': 'Pearson',
    'spearman': 'Spearman',
    'kendall': 'Kendall',
    'top1': 'Top-1',
}


@dataclass(frozen=True)
class TextTable:
    r"""A table of text."""

    title: str
    header: list[str]
    body: list[list[str]]
    num_keys: int = 1  # leading columns that say what a row is about
    notes: list[str] = field(default_factory=list)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)  # row and column: CSS classes

    @property
    def grouped(self) -> list[list[str]]:
        r"""The body, where leading columns that repeat the row above are empty."""
        out, above = [], ['\0']
        for row in self.body:
            depth = 0
            while depth < self.num_keys and row[: depth + 1] == above[: depth + 1]:
                depth += 1
            out.append([''] * depth + row[depth:])
            above = row
        return out

    def starts_group(self, row: int) -> bool:
        r"""Whether the first column changes here."""
        return row > 0 and self.body[row][0] != self.body[row - 1][0]

    def span(self, row: int) -> int:
        r"""The rows from here on that have the same first column; none if it
        is the one of the row above.
        """
        if row > 0 and not self.starts_group(row):
            return 0
        ends = (i for i in range(row + 1, len(self.body)) if self.starts_group(i))
        return next(ends, len(self.body)) - row


def number(value: float | None, digits: int = 3, missing: str = NOTHING) -> str:
    r"""A number with a fixed number of digits."""
    return missing if value is None else f'{value:.{digits}f}'


def row_table(table: ExperimentTable) -> TextTable:
    r"""All rows of an experiment: ours, then the paper's."""
    experiment, values = table.experiment, table.values
    has_model = any(row.key.model for row in table.rows)
    has_variant = table.variants != ['']
    has_paper = any(row.paper for row in table.rows)
    is_pairs = table.kind == 'pairs'
    header = ['Dataset', experiment.level_name.capitalize()]
    header += [experiment.variant_name.capitalize()] * has_variant + ['Model'] * has_model
    num_keys = len(header) - 1
    header += [_title(v.name) for v in values] + ['Difference'] * is_pairs + ['Seeds']
    theirs = [v for v in values if any(r.paper_mean(v.column) is not None for r in table.rows)]
    if has_paper:
        header += [f'Paper: {v.name}' for v in theirs] + ['Paper: difference'] * is_pairs
    f1 = _macro_f1(table)
    header += [f'Macro F1: {value.name}' for value in f1]
    reasons = list(dict.fromkeys(r.paper.doubtful for r in table.rows if r.paper))
    reasons = [reason for reason in reasons if reason]
    body = []
    for row in table.rows:
        line = [row.key.dataset, row.key.level]
        line += [row.key.variant or 'default'] * has_variant + [row.key.model] * has_model
        line += [score(row, value) for value in values]
        line += [_difference(row)] * is_pairs + [str(len(row.cells)) if row.is_run else '']
        if has_paper:
            line += _paper(row, theirs, reasons, is_pairs)
        line += [score(row, value) if row.is_run else '' for value in f1]
        body.append(line)
    notes = [table.remark] * bool(table.remark)
    notes += [f'[{i}] {reason}' for i, reason in enumerate(reasons, start=1)]
    return TextTable(experiment.title, header, body, num_keys, notes)


def summary_table(
    title: str, label: str, summaries: Sequence[tuple[str, Summary]], intervals: bool = True
) -> TextTable:
    r"""Measures, ours above the paper's.

    Args:
        title (str): Of the table.
        label (str): Of its first column.
        summaries (list): The text of the first column, and what stands
            beside.
        intervals (bool, optional): Whether to show them.
            (default: :obj:`True`)
    """
    header = [label, 'Whose', *MEASURE_NAMES.values(), 'Rows']
    body: list[list[str]] = []
    marks = {}
    for name, summary in summaries:
        for i, measure in enumerate(MEASURES):
            if summary.is_claim and summary.is_better(measure):
                is_clear = summary.is_clear(measure)
                marks[len(body), 2 + i] = 'better' if is_clear else 'better unsure'
        is_run = summary.run > 0
        has_pairs = any(e.value is not None for e in summary.ours.values())
        values = [_estimate(summary.ours, m, intervals) if has_pairs else '-' for m in MEASURES]
        run = f'{summary.run} of {summary.asked}'
        body.append([name, 'ours', *(values if is_run else [NOT_RUN] * len(MEASURES)), run])
        for whose, count, found in _theirs(summary):
            line = [_estimate(found, m, intervals) for m in MEASURES]
            if any(e.value is not None for e in found.values()):
                body.append([name, whose, *line, str(count)])
    return TextTable(title, header, body, 1, marks=marks)


def _theirs(summary: Summary) -> list[tuple[str, int, dict[str, Estimate]]]:
    if summary.num_same == summary.num_paper:
        return [('paper', summary.num_paper, summary.paper)]
    return [
        ('paper, same rows', summary.num_same, summary.same),
        ('paper, all rows', summary.num_paper, summary.paper),
    ]


def _estimate(found: dict[str, Estimate], measure: str, intervals: bool) -> str:
    digits = {'mse': 4, 'top1': 2}.get(measure, 3)
    one = found[measure]
    text = number(one.value, digits)
    if one.low is None or not intervals:
        return text
    return f'{text} [{number(one.low, digits)}, {number(one.high, digits)}]'


def score(row: Row, value: Value) -> str:
    r"""The mean over seeds and, with several, the deviation."""
    if not row.is_run:
        return NOT_RUN
    mean, std = row.mean(value.column, value.metric), row.std(value.column, value.metric)
    return number(mean) if std is None else f'{number(mean)} ± {number(std)}'


def _macro_f1(table: ExperimentTable) -> list[Value]:
    r"""The columns of a second score, where cells have one."""
    if table.kind == 'distances' or table.experiment.metric != 'accuracy':
        return []
    found = [Value(v.name, v.column, 'macro_f1') for v in table.values if v.column != 'quantized']
    return [v for v in found if any(r.mean(v.column, v.metric) is not None for r in table.rows)]


def _difference(row: Row) -> str:
    pair = row.pair()
    if pair is None:
        return NOTHING if row.is_run else ''
    return _signed(sum(g - o for o, g in pair.runs.values()) / len(pair.runs))


def _paper(row: Row, values: list[Value], reasons: list[str], is_pairs: bool) -> list[str]:
    if row.paper is None:
        return [''] * (len(values) + is_pairs)
    mark = f' [{reasons.index(row.paper.doubtful) + 1}]' if row.paper.doubtful else ''
    mean = row.paper.mean
    out = [number(mean.get(value.column), missing='') for value in values]
    out[-1] += mark
    if is_pairs:
        out.append(_signed(mean['generated'] - mean['original']))
    return out


def _signed(value: float) -> str:
    return f'{round(value, 3) + 0.0:+.3f}'  # zero has no minus


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]
