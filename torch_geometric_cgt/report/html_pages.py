r"""The HTML pages of a benchmark, an evaluation and an audit, each one file with all figures."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jinja2

from torch_geometric_cgt.audit import CHECKS, Limit
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED, WITHIN
from torch_geometric_cgt.benchmark.experiments import DATASETS
from torch_geometric_cgt.benchmark.judge import CEILING, CONTROL
from torch_geometric_cgt.benchmark.metrics import Pair
from torch_geometric_cgt.report import figures
from torch_geometric_cgt.report.benchmark_results import Results
from torch_geometric_cgt.report.experiment_tables import (
    MIN_PAIRS,
    PAIRS,
    STATISTICS,
    ExperimentTable,
    Row,
    rows_not_run,
)
from torch_geometric_cgt.report.publication import SOURCE_COLUMNS, publication_of
from torch_geometric_cgt.report.substitute_answers import RULES, answers_of, worst_of
from torch_geometric_cgt.report.text_tables import NOT_RUN, TextTable, to_text_table
from torch_geometric_cgt.report.zoo_tables import (
    METRIC_NAMES,
    joined_table,
    judged_table,
    views_table,
)

PADDING = 0.04  # around the scores in a figure
NUM_POINTS = 200  # of the curve of the limit
# The colours of verdicts: green, amber, red and grey.
VERDICT_CLASSES = {NOTHING: 'nothing', WITHIN: 'within', ABOVE: 'above', UNCHECKED: 'unchecked'}
TITLES = {
    'original': 'Original',
    CEILING: 'Original again (ceiling)',
    'quantized': 'Quantized',
    'generated': 'Generated',
    CONTROL: 'Control: neighbours shuffled',
    'transfer': 'Trained on generated, tested on original',
    'quantized transfer': 'Trained on quantized, tested on original',
    'control transfer': 'Trained on control, tested on original',
}


def render_benchmark(results: Results) -> str:
    r"""The page of a benchmark.

    Args:
        results (Results): The results.
    """
    return render_template(
        'benchmark.html',
        headline=results.headline(),
        overview=_overview(results),
        sections=[_section(results, table) for table in results.tables],
        runs=results.runs,
        colors={column: figures.COLORS[column] for column in PAIRS},
        marks={column: _column_mark(column) for column in PAIRS},
        band=figures.BAND,
        min_pairs=MIN_PAIRS,
        not_run=NOT_RUN,
    )


def render_evaluation(evaluation: dict[str, Any]) -> str:
    r"""The page of an evaluation.

    Args:
        evaluation (dict): As in
            :func:`~torch_geometric_cgt.report.report_files.write_evaluation`.
    """
    mean, fit = evaluation['mean'], evaluation.get('fit')
    drawn = {name: figures.histogram(c, name) for name, c in evaluation['histograms'].items()}
    if 'original' in mean:
        scores = mean['original'], mean['generated']
        drawn['scatter'] = figures.scatter(evaluation['models'], *scores)
    if fit and 'train_nll' in fit:  # of CGT
        drawn['fit'] = figures.loss_curve(fit['train_nll'], fit['holdout_nll'], fit['best_epoch'])
    rows = [
        {'model': model, 'means': {column: mean[column][i] for column in mean}}
        for i, model in enumerate(evaluation['models'])
    ]
    judged, views = evaluation.get('judged'), evaluation.get('views')
    graph = evaluation.get('graph')
    return render_template(
        'evaluation.html',
        judged=judged_table(judged) if judged else None,
        views=views_table(views) if views else None,
        graph=joined_table(graph) if graph else None,
        metric=METRIC_NAMES[evaluation.get('metric', 'accuracy')],
        floor=evaluation.get('floor', []),
        report=evaluation,
        card=evaluation['card'],
        rows=rows,
        titles=TITLES,
        figures=drawn,
        band=figures.BAND,
        publication=publication_of(evaluation),
        answers=(answers := answers_of(evaluation)),
        answer_class=worst_of(answers).colour if answers else '',
        rules=RULES,
        secret=SOURCE_COLUMNS,
    )


def render_graphs(table: TextTable) -> str:
    r"""The page that compares several graphs.

    Args:
        table (TextTable): The output of
            :func:`~torch_geometric_cgt.report.zoo_tables.graphs_table`.
    """
    return render_template('zoo.html', table=table)


def render_audit(content: dict[str, Any]) -> str:
    r"""The page of an audit.

    Args:
        content (dict): The output of :meth:`Audit.to_dict`.
    """
    details = {name: content['details'].get(name) for name in CHECKS}
    drawn = {}
    if support := details['support']:
        drawn['support'] = figures.support_bars(support['histogram'], support['bins'])
    if membership := details['membership']:
        limit = Limit(**content['settings']['limit'])
        shares = [10 ** (-4 * (1 - i / NUM_POINTS)) for i in range(NUM_POINTS + 1)]
        drawn['curves'] = figures.attack_curves(
            membership['curves'], [(x, limit.highest(x)) for x in shares]
        )
    return render_template(
        'audit.html',
        audit=content,
        card=content['card'],
        details=details,
        settings=content['settings'],
        figures=drawn,
        classes=VERDICT_CLASSES,
    )


def render_template(name: str, **content: Any) -> str:
    r"""Fills a template of this folder. All text is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name).render(**content)


def _section(results: Results, table: ExperimentTable) -> dict[str, Any]:
    total = [s for s in results.summaries[table.experiment.name] if not s.dataset]
    verdicts, notes = results.comments_on(table)
    is_pairs, has_variants = table.kind == 'pairs', table.variants != ['']
    return {
        'id': 'experiment-' + re.sub(r'[^A-Za-z0-9]+', '-', table.experiment.name),
        'experiment': table.experiment,
        'table': table,
        'has_paper': any(row.paper for row in table.rows),
        'run': sum(s.run for s in total),
        'asked': sum(s.asked for s in total),
        'not_run': rows_not_run(table),
        'verdicts': verdicts,
        'notes': notes,
        'missed': sum(not verdict.holds for verdict in verdicts),
        'variants': results.variants(table) if is_pairs and has_variants else None,
        'summary': results.summary(table) if is_pairs else None,
        'rows': to_text_table(table),
        'scatters': _scatters(table),
        'dots': _dots(table),
        'dots_by': _dots_by(table),
        'histograms': _histograms(table),
    }


def _overview(results: Results) -> dict[str, Any] | None:
    r"""The scatter plot of all scenarios, like the paper's Figure 3(a)."""
    rows = [
        (row, f'{table.experiment.scenario}. {table.experiment.title}')
        for table in results.tables
        for row in table.rows
        if table.experiment.scenario and not row.key.variant
    ]
    return _scatter(rows, list(dict.fromkeys(name for _, name in rows)), 'accuracy')


def _scatters(table: ExperimentTable) -> dict[str, Any] | None:
    r"""The scatter plot of an experiment that has the default generator only."""
    if table.experiment.variants != ('',) or table.kind != 'pairs':
        return None
    rows = [(row, row.key.model) for row in table.rows if not row.key.variant]
    return _scatter(rows, list(dict.fromkeys(name for _, name in rows)), table.metric_name)


def _scatter(
    rows: Sequence[tuple[Row, str]], names: Sequence[str], metric: str
) -> dict[str, Any] | None:
    r"""Two scatter plots with the same axes: our scores, and the paper's on the
    same rows.

    Args:
        rows (list): Rows, each with the name of its marker.
        names (list[str]): All names. Markers are assigned in this order.
        metric (str): The name of the metric.
    """
    rows = [(row, name) for row, name in rows if row.pair()]
    if not rows:
        return None
    ours, theirs = _points(rows, Row.pair), _points(rows, Row.paper_pair)
    limits = _limits(value for *_, x, y in [*ours, *theirs] for value in (x, y))
    datasets = list(dict.fromkeys([*DATASETS, *(row.key.dataset for row, _ in rows)]))
    palette, shapes = figures.PALETTE, figures.MARKERS
    colors = {name: palette[i % len(palette)] for i, name in enumerate(datasets)}
    markers = {name: shapes[i % len(shapes)] for i, name in enumerate(names)}
    drawn = [('This run', ours), ('The paper, on the same rows', theirs)]
    shown = {dataset for dataset, *_ in ours}, {name for _, name, *_ in ours}
    return {
        'figures': [
            (caption, figures.pair_scatter(points, colors, markers, limits, metric))
            for caption, points in drawn
            if points
        ],
        'colors': {name: color for name, color in colors.items() if name in shown[0]},
        'marks': {
            name: figures.marker_svg(marker, '#1d2330')
            for name, marker in markers.items()
            if name in shown[1]
        },
    }


def _points(
    rows: Iterable[tuple[Row, str]], pair_of: Callable[[Row], Pair | None]
) -> list[tuple[str, str, float, float]]:
    out = []
    for row, name in rows:
        if pair := pair_of(row):
            x, y = (statistics.fmean(column) for column in zip(*pair.runs.values(), strict=True))
            out.append((row.key.dataset, name, x, y))
    return out


def _limits(values: Iterable[float]) -> tuple[float, float]:
    ends = list(values)
    return min(ends) - PADDING, max(ends) + PADDING


def _dots_by(table: ExperimentTable) -> str:
    r"""What the lines of a dot plot differ in."""
    e = table.experiment
    return e.variant_name if len(table.variants) > 1 else e.level_name


def _dots(table: ExperimentTable) -> list[tuple[str, str]]:
    r"""One dot plot per dataset or, with several variants, per dataset and
    level. It shows means over the models that were run. All have the same axis.
    """
    every = list(dict.fromkeys(row.key.level for row in table.rows))
    by_variant = len(table.variants) > 1
    found = []
    for dataset in table.datasets:
        for levels in [[level] for level in every] if by_variant else [every]:
            rows = [r for r in table.rows if r.key.dataset == dataset and r.key.level in levels]
            rows = [row for row in rows if row.pair()]
            if not rows:
                continue
            groups = [
                [r for r in rows if (r.key.level, r.key.variant) == (level, variant)]
                for level in levels
                for variant in table.variants
            ]
            columns = [value.column for value in table.values]
            means = {c: [_mean(r.mean(c) for r in g) for g in groups] for c in columns}
            paper = {c: [_mean(r.paper_mean(c) for r in g) for g in groups] for c in columns}
            caption = [dataset, f'{levels[0]} {table.experiment.level_name}']
            several = by_variant and len(every) > 1
            found.append((', '.join(caption[: 1 + several]), means, paper))
    if not found:
        return []
    labels = [v or 'default' for v in table.variants] if by_variant else every
    label = '' if by_variant else table.experiment.level_name
    shown = [v for _, *both in found for means in both for column in means.values() for v in column]
    limits = _limits(value for value in shown if value is not None)
    return [
        (caption, figures.dot_plot(labels, means, paper, limits, table.metric_name, label))
        for caption, means, paper in found
    ]


def _column_mark(column: str) -> str:
    marker = 'D' if column == 'quantized' else 'o'
    return figures.marker_svg(marker, figures.COLORS[column], hollow=column == 'original')


def _mean(values: Iterable[float | None]) -> float | None:
    r"""The mean, or :obj:`None` if a value is missing."""
    found = list(values)
    known = [value for value in found if value is not None]
    return statistics.fmean(known) if known and len(known) == len(found) else None


def _histograms(table: ExperimentTable) -> list[tuple[str, str]]:
    r"""Two histograms per row, with the counts of all seeds added up."""
    out = []
    for row in table.rows:
        for statistic in STATISTICS:
            counts: dict[str, list[int]] = {}
            for cell in row.cells.values():
                for column, count in cell.histograms.get(statistic, {}).items():
                    pairs = zip_longest(counts.get(column, []), count, fillvalue=0)
                    counts[column] = [a + b for a, b in pairs]
            if counts:
                name = statistic.replace('_', ' ')
                caption = f'{row.key.dataset}, {row.key.level} {table.experiment.level_name}'
                out.append((caption, figures.histogram(_trimmed(counts), name, small=True)))
    return out


def _trimmed(counts: dict[str, list[int]]) -> dict[str, list[int]]:
    r"""The counts in the order of the legend, without bins that are empty at the
    end.
    """
    size = 1 + max((i for c in counts.values() for i, n in enumerate(c) if n), default=0)
    order = [*(c for c in PAIRS if c in counts), *(c for c in counts if c not in PAIRS)]
    return {column: counts[column][:size] for column in order}
