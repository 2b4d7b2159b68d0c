r"""Tables of text: experiments, methods and measures of agreement, with formatted numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch_geometric_cgt.benchmark.metrics import MEASURES, Estimate, Pair, measure
from torch_geometric_cgt.benchmark.variants import reidentification_of
from torch_geometric_cgt.privacy.entries import Entry
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.privacy.noise import Gaussian, Laplace, Noise, SampledGaussian
from torch_geometric_cgt.report.experiment_tables import (
    AgreementSummary,
    ExperimentTable,
    Row,
    Value,
)

NOT_RUN = 'not run'
NOT_AVAILABLE = 'n/a'
MEASURE_NAMES = {
    'mse': 'MSE',
    'max_abs': 'Largest gap',
    'pearson': 'Pearson',
    'spearman': 'Spearman',
    'kendall': 'Kendall',
    'top1': 'Top-1',
}
ORIGINAL = 'original graph'
REIDENTIFICATION = (
    "'Node' and 'Edge' are the re-identification probabilities of a blind guess, as the paper "
    'defines them. They follow from the method and are not measured.'
)
HEADER = ('stage', 'mechanism', 'change', 'runs', 'noise', 'epsilon alone')


@dataclass(frozen=True)
class TextTable:
    r"""A table of text.

    Args:
        title (str): The title.
        header (list[str]): The name of each column.
        body (list[list[str]]): The rows.
        num_keys (int, optional): The number of leading columns that group
            rows. One more column names the row, all others are values.
            (default: :obj:`1`)
        notes (list[str], optional): Sentences below the table.
            (default: :obj:`[]`)
        marks (dict, optional): CSS classes by row and column.
            (default: :obj:`{}`)
    """

    title: str
    header: list[str]
    body: list[list[str]]
    num_keys: int = 1
    notes: list[str] = field(default_factory=list)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def grouped(self) -> list[list[str]]:
        r"""The body with empty text where a leading column repeats the row above."""
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
        r"""The number of rows of the group that starts here, or :obj:`0`
        inside of a group.
        """
        if row > 0 and not self.starts_group(row):
            return 0
        ends = (i for i in range(row + 1, len(self.body)) if self.starts_group(i))
        return next(ends, len(self.body)) - row

    @property
    def alignment(self) -> list[str]:
        r"""For each column, :obj:`'left'` if it names a row or a group, else
        :obj:`'right'`.
        """
        num_left = self.num_keys + 1
        return ['left' if i < num_left else 'right' for i in range(len(self.header))]

    def to_text(self) -> str:
        r"""The table for a terminal, with aligned columns."""
        return align_columns([self.header, *self.grouped], self.alignment)


def align_columns(rows: Sequence[Sequence[str]], alignment: Sequence[str]) -> str:
    r"""Pads the columns of some rows to equal widths.

    Args:
        rows (list[list[str]]): The rows.
        alignment (list[str]): :obj:`'left'` or :obj:`'right'` for each column.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = list(zip(widths, alignment, strict=True))
    return '\n'.join(
        '  '.join(
            text.ljust(width) if side == 'left' else text.rjust(width)
            for text, (width, side) in zip(row, columns, strict=True)
        ).rstrip()
        for row in rows
    )


def number(value: float | None, digits: int = 3, missing: str = NOT_AVAILABLE) -> str:
    r"""A number with a fixed number of digits."""
    return missing if value is None else f'{value:.{digits}f}'


def to_text_table(table: ExperimentTable) -> TextTable:
    r"""The :func:`method_table` of an experiment that compares methods, and the
    :func:`row_table` of any other.
    """
    return method_table(table) if table.experiment.compares_methods else row_table(table)


def row_table(table: ExperimentTable) -> TextTable:
    r"""One line per row of an experiment: our scores, then the paper's."""
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
        line += [_score(row, value) for value in values]
        line += [_difference(row)] * is_pairs + [str(len(row.cells)) if row.is_run else '']
        if has_paper:
            line += _paper_scores(row, theirs, reasons, is_pairs)
        line += [_score(row, value) if row.is_run else '' for value in f1]
        body.append(line)
    notes = [table.remark] * bool(table.remark)
    notes += [f'[{i}] {reason}' for i, reason in enumerate(reasons, start=1)]
    return TextTable(experiment.title, header, body, num_keys, notes)


def method_table(table: ExperimentTable) -> TextTable:
    r"""One line per method: its re-identification probabilities, the score of
    each model, and the MSE to the scores on the original graph. The paper's
    numbers are on the line below.
    """
    models = list(dict.fromkeys(row.key.model for row in table.rows))
    several = len({row.key.level for row in table.rows}) > 1
    header = ['Dataset', *[table.experiment.level_name.capitalize()] * several]
    header += [table.experiment.variant_name.capitalize(), 'Node', 'Edge']
    num_keys = len(header)
    body = []
    for dataset, level in dict.fromkeys((row.key.dataset, row.key.level) for row in table.rows):
        part = [r for r in table.rows if (r.key.dataset, r.key.level) == (dataset, level)]
        for method in [ORIGINAL, *dict.fromkeys(row.key.variant for row in part)]:
            is_original = method == ORIGINAL
            rows = [r for r in part if is_original or r.key.variant == method]
            key = [dataset, *[level] * several, method or 'default', *_probabilities(method)]
            column = 'original' if is_original else 'generated'
            value = Value(column, column, table.experiment.metric)
            ours = [_most_seeds_score([r for r in rows if r.key.model == m], value) for m in models]
            body.append([*key, 'ours', *ours, '' if is_original else _mse(rows, Row.pair)])
            theirs = [_paper_score([r for r in rows if r.key.model == m], column) for m in models]
            if any(theirs):
                mse = '' if is_original else _mse(rows, Row.paper_pair)
                body.append([*key, 'paper', *theirs, mse])
    header += ['Whose', *models, 'MSE']
    return TextTable(
        table.experiment.title, header, body, num_keys, [table.remark, REIDENTIFICATION]
    )


def summary_table(
    title: str,
    label: str,
    summaries: Sequence[tuple[str, AgreementSummary]],
    intervals: bool = True,
) -> TextTable:
    r"""Measures of agreement, ours above the paper's.

    Args:
        title (str): The title of the table.
        label (str): The name of its first column.
        summaries (list): The text of the first column, and the measures.
        intervals (bool, optional): Whether to show bootstrap intervals.
            (default: :obj:`True`)
    """
    header = [label, 'Whose', *MEASURE_NAMES.values(), 'Rows']
    body: list[list[str]] = []
    marks = {}
    for name, summary in summaries:
        for i, key in enumerate(MEASURES):
            if summary.is_claim and summary.is_better(key):
                is_clear = summary.is_clear(key)
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


def _theirs(summary: AgreementSummary) -> list[tuple[str, int, dict[str, Estimate]]]:
    if summary.num_same == summary.num_paper:
        return [('paper', summary.num_paper, summary.paper)]
    return [
        ('paper, same rows', summary.num_same, summary.same),
        ('paper, all rows', summary.num_paper, summary.paper),
    ]


def _estimate(found: dict[str, Estimate], key: str, intervals: bool) -> str:
    digits = {'mse': 4, 'top1': 2}.get(key, 3)
    one = found[key]
    text = number(one.value, digits)
    if one.low is None or not intervals:
        return text
    return f'{text} [{number(one.low, digits)}, {number(one.high, digits)}]'


def _score(row: Row, value: Value) -> str:
    r"""The mean over seeds and, with several seeds, the standard deviation."""
    if not row.is_run:
        return NOT_RUN
    mean, std = row.mean(value.column, value.metric), row.std(value.column, value.metric)
    return number(mean) if std is None else f'{number(mean)} ± {number(std)}'


def _macro_f1(table: ExperimentTable) -> list[Value]:
    r"""The columns of macro F1, where cells have it."""
    if table.kind == 'distances' or table.experiment.metric != 'accuracy':
        return []
    found = [Value(v.name, v.column, 'macro_f1') for v in table.values if v.column != 'quantized']
    return [v for v in found if any(r.mean(v.column, v.metric) is not None for r in table.rows)]


def _difference(row: Row) -> str:
    pair = row.pair()
    if pair is None:
        return NOT_AVAILABLE if row.is_run else ''
    return _signed(sum(g - o for o, g in pair.runs.values()) / len(pair.runs))


def _paper_scores(row: Row, values: list[Value], reasons: list[str], is_pairs: bool) -> list[str]:
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
    return f'{round(value, 3) + 0.0:+.3f}'  # no negative zero


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def _probabilities(method: str) -> list[str]:
    found = (1.0, 1.0) if method == ORIGINAL else reidentification_of(method)
    return [NOT_AVAILABLE] * 2 if found is None else [f'{100 * p:g} %' for p in found]


def _most_seeds_score(rows: Sequence[Row], value: Value) -> str:
    r"""The score of the row with the most seeds. The rows of one model share
    their original graph.
    """
    return _score(max(rows, key=lambda row: len(row.cells)), value) if rows else ''


def _paper_score(rows: Sequence[Row], column: str) -> str:
    means = [mean for row in rows if (mean := row.paper_mean(column)) is not None]
    return number(means[0]) if means else ''


def _mse(rows: Sequence[Row], pair_of: Callable[[Row], Pair | None]) -> str:
    pairs = [pair for row in rows if (pair := pair_of(row))]
    return number(measure(pairs)['mse'], 4) if pairs else NOT_RUN


def price_table(ledger: Ledger, unit: str, delta: float) -> str:
    r"""The noise and the cost of each mechanism, and the cost of all together.

    Args:
        ledger (Ledger): The ledger.
        unit (str): The unit of privacy: what neighbouring datasets differ in.
        delta (float): The failure probability.
    """
    rows = [HEADER, *(_row(ledger, entry, unit, delta) for entry in ledger.entries)]
    total = ledger.total(unit, delta)
    lines = [
        align_columns(rows, ['left'] * len(HEADER)),
        f'together: epsilon = {total.epsilon:.4g}, delta = {delta:.3g} per {unit} '
        f'({total.relation}; accountant: {total.accountant})',
    ]
    return '\n'.join(lines)


def _row(ledger: Ledger, entry: Entry, unit: str, delta: float) -> tuple[str, ...]:
    if entry.noise is None:
        return entry.stage, entry.name, '', '', 'none needed', '0'
    cost = ledger.cost(entry, unit, delta)
    noise = _describe(entry.noise)
    change = f'{entry.changes.get(unit, entry.sensitivity):.3g}'
    return entry.stage, entry.name, change, str(entry.count), noise, f'{cost:.3g}'


def _describe(noise: Noise) -> str:
    if isinstance(noise, SampledGaussian):
        return (
            f'{noise.noise_multiplier:.3g} x clipping norm, {int(noise.steps)} steps, sampling '
            f'rate {noise.sampling_probability:.2%}'
        )
    if isinstance(noise, Gaussian):
        return f'{noise.kind.replace("_", " ")}, sigma {noise.sigma:.4g}'
    if isinstance(noise, Laplace):
        return f'Laplace, scale {noise.scale:.4g}'
    return repr(noise)
