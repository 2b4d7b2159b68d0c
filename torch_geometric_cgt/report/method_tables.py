r"""Tables of methods: a line for each, with all models beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_geometric_cgt.benchmark.metrics import Pair, measure
from torch_geometric_cgt.benchmark.variants import reidentification_of
from torch_geometric_cgt.report.tables import ExperimentTable, Row, Value
from torch_geometric_cgt.report.text_tables import (
    NOT_RUN,
    NOTHING,
    TextTable,
    number,
    row_table,
    score,
)

ORIGINAL = 'original graph'
NOTES = [
    "'Node' and 'Edge' are re-identification probabilities as the paper defines them, of a blind "
    'guess; nothing is measured there.',
]


def shown_table(table: ExperimentTable) -> TextTable:
    r"""An experiment as a person reads it: a line for each method where
    methods are compared, and for each row elsewhere.
    """
    return method_table(table) if table.experiment.compares_methods else row_table(table)


def method_table(table: ExperimentTable) -> TextTable:
    r"""Re-identification probabilities, what each model scores, and the MSE to
    its scores on the original graph; ours above the paper's.
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
            ours = [_score([r for r in rows if r.key.model == m], value) for m in models]
            body.append([*key, 'ours', *ours, '' if is_original else _mse(rows, Row.pair)])
            theirs = [_paper([r for r in rows if r.key.model == m], column) for m in models]
            if any(theirs):
                mse = '' if is_original else _mse(rows, Row.paper_pair)
                body.append([*key, 'paper', *theirs, mse])
    header += ['Whose', *models, 'MSE']
    return TextTable(table.experiment.title, header, body, num_keys, [table.remark, *NOTES])


def _probabilities(method: str) -> list[str]:
    found = (1.0, 1.0) if method == ORIGINAL else reidentification_of(method)
    return [NOTHING] * 2 if found is None else [f'{100 * p:g} %' for p in found]


def _score(rows: Sequence[Row], value: Value) -> str:
    r"""Of the row with the most seeds: rows of one model share their original."""
    return score(max(rows, key=lambda row: len(row.cells)), value) if rows else ''


def _paper(rows: Sequence[Row], column: str) -> str:
    means = [mean for row in rows if (mean := row.paper_mean(column)) is not None]
    return number(means[0]) if means else ''


def _mse(rows: Sequence[Row], pair_of: Callable[[Row], Pair | None]) -> str:
    pairs = [pair for row in rows if (pair := pair_of(row))]
    return number(measure(pairs)['mse'], 4) if pairs else NOT_RUN
