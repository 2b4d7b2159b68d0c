r"""The page of a benchmark: one HTML file with its figures, tables and where they come from."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

from torch_geometric_cgt.benchmark import figures
from torch_geometric_cgt.benchmark.bar_figures import FEW, bars
from torch_geometric_cgt.benchmark.experiments import DATASETS
from torch_geometric_cgt.benchmark.method_tables import shown_table
from torch_geometric_cgt.benchmark.metrics import Pair
from torch_geometric_cgt.benchmark.results import Results
from torch_geometric_cgt.benchmark.tables import PAIRS, STATISTICS, ExperimentTable, Row
from torch_geometric_cgt.benchmark.template import render
from torch_geometric_cgt.benchmark.text_tables import NOT_RUN


def render_page(results: Results) -> str:
    r"""The page as text; it loads nothing from elsewhere.

    Args:
        results (Results): What is shown.
    """
    return render(
        'page.html',
        headline=results.headline(),
        sections=[_section(results, table) for table in results.tables],
        runs=results.runs,
        colors={column: figures.COLORS[column] for column in PAIRS},
        band=figures.BAND,
        not_run=NOT_RUN,
    )


def _section(results: Results, table: ExperimentTable) -> dict[str, Any]:
    total = [s for s in results.summaries[table.experiment.name] if not s.dataset]
    return {
        'id': 'experiment-' + re.sub(r'[^A-Za-z0-9]+', '-', table.experiment.name),
        'experiment': table.experiment,
        'kind': table.kind,
        'has_paper': any(row.paper for row in table.rows),
        'run': sum(s.run for s in total),
        'asked': sum(s.asked for s in total),
        'summary': results.summary(table) if table.kind == 'pairs' else None,
        'rows': shown_table(table),
        'scatters': _scatters(table),
        'bars': _bars(table),
        'bars_by': _bars_by(table),
        'has_many_bars': len(table.variants if len(table.variants) > 1 else _levels(table)) > 3,
        'histograms': _histograms(table),
    }


def _scatters(table: ExperimentTable) -> list[tuple[str, str]]:
    r"""Ours, and the paper's of the same rows on the same axes; too much to
    see where there are many variants.
    """
    if len(table.variants) > FEW:
        return []
    rows = [row for row in table.rows if row.pair()]
    every = [*_points(rows, Row.pair), *_points(rows, Row.paper_pair)]
    ends = [value for *_, x, y in every for value in (x, y)]
    datasets = list(dict.fromkeys([*DATASETS, *table.datasets]))
    models = list(dict.fromkeys(row.key.model for row in table.rows))
    out = []
    for variant in table.variants:
        part = [row for row in rows if row.key.variant == variant]
        name = f', {variant or "default"}' if len(table.variants) > 1 else ''
        for whose, pair_of in [('This run', Row.pair), ('The paper', Row.paper_pair)]:
            if points := _points(part, pair_of):
                limits = (min(ends) - 0.04, max(ends) + 0.04)
                drawn = figures.pair_scatter(points, datasets, models, limits)
                out.append((whose + name, drawn))
    return out


def _points(
    rows: Iterable[Row], pair_of: Callable[[Row], Pair | None]
) -> list[tuple[str, str, float, float]]:
    out = []
    for row in rows:
        if pair := pair_of(row):
            x, y = (statistics.fmean(column) for column in zip(*pair.runs.values(), strict=True))
            out.append((row.key.dataset, row.key.model, x, y))
    return out


def _bars_by(table: ExperimentTable) -> str:
    r"""What makes the difference between groups of bars."""
    e = table.experiment
    return e.variant_name if len(table.variants) > 1 else e.level_name


def _bars(table: ExperimentTable) -> list[tuple[str, str]]:
    r"""For each dataset, and for each level where there are several variants,
    means over the models that were run.
    """
    out = []
    levels, by_variant = _levels(table), len(table.variants) > 1
    for dataset in table.datasets:
        for shown in [[level] for level in levels] if by_variant else [levels]:
            rows = [r for r in table.rows if r.key.dataset == dataset and r.key.level in shown]
            rows = [row for row in rows if row.pair()]
            if not rows:
                continue
            groups = [
                [r for r in rows if (r.key.level, r.key.variant) == (level, variant)]
                for level in shown
                for variant in table.variants
            ]
            means = {c: [_mean(r.mean(c) for r in g) for g in groups] for c in PAIRS}
            paper = {
                c: [_mean(r.paper_mean(c) for r in g) for g in groups]
                for c in ('original', 'generated')
            }
            labels = [v or 'default' for v in table.variants] if by_variant else levels
            caption = [dataset, f'{shown[0]} {table.experiment.level_name}']
            several = by_variant and len(levels) > 1
            out.append((', '.join(caption[: 1 + several]), bars(labels, means, paper)))
    return out


def _levels(table: ExperimentTable) -> list[str]:
    return list(dict.fromkeys(row.key.level for row in table.rows))


def _mean(values: Iterable[float | None]) -> float | None:
    r"""The mean, if nothing is missing."""
    found = list(values)
    known = [value for value in found if value is not None]
    return statistics.fmean(known) if known and len(known) == len(found) else None


def _histograms(table: ExperimentTable) -> list[tuple[str, str]]:
    r"""For each row, the counts of all seeds together."""
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
    r"""In the order of the legend, without the end where nothing is counted."""
    size = 1 + max((i for c in counts.values() for i, n in enumerate(c) if n), default=0)
    order = [*(c for c in PAIRS if c in counts), *(c for c in counts if c not in PAIRS)]
    return {column: counts[column][:size] for column in order}
