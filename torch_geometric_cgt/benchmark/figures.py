r"""Figures of a report, as SVG text that stands by itself."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {'original': '#5b6472', 'quantized': '#d98e2b', 'generated': '#2563b8'}
STYLE: Any = {
    'font.size': 10,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'svg.fonttype': 'none',
    'svg.hashsalt': 'cgt',
}


def scatter(models: list[str], original: list[float], generated: list[float]) -> str:
    r"""Scores on the generated graph against those on the original."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(4.6, 4.2)
        low = min(*original, *generated) - 0.05
        high = min(1.02, max(*original, *generated) + 0.05)
        axes.plot([low, high], [low, high], color='#9aa2ad', linewidth=1, zorder=0)
        axes.fill_between(
            [low, high],
            [low - 0.03, high - 0.03],
            [low + 0.03, high + 0.03],
            color='#9aa2ad',
            alpha=0.15,
            linewidth=0,
            zorder=0,
        )
        for i, (model, x, y) in enumerate(zip(models, original, generated, strict=True)):
            color = matplotlib.colormaps['tab10'](i % 10)
            axes.scatter([x], [y], color=[color], s=46, label=model, zorder=2)
        axes.set(xlim=(low, high), ylim=(low, high), aspect='equal')
        axes.set(xlabel='accuracy on the original', ylabel='accuracy on the generated graph')
        axes.legend(frameon=False, loc='upper left')
        return _svg(figure)


def histogram(counts: dict[str, list[int]], label: str) -> str:
    r"""Histograms of one statistic, one line per graph."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(4.6, 3.1)
        for column, values in counts.items():
            total = max(1, sum(values))
            axes.stairs(
                [value / total for value in values],
                [i - 0.5 for i in range(len(values) + 1)],
                color=COLORS[column],
                label=column,
                linewidth=1.6,
                fill=column == 'original',
                alpha=0.35 if column == 'original' else 1.0,
            )
        axes.set(xlabel=label, ylabel='share of computation graphs')
        axes.legend(frameon=False)
        return _svg(figure)


def loss_curve(train: list[float], holdout: list[float], best: int) -> str:
    r"""The likelihood during the fit."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(4.6, 3.1)
        epochs = range(1, len(train) + 1)
        axes.plot(epochs, train, color=COLORS['original'], label='training')
        if holdout:
            axes.plot(epochs, holdout, color=COLORS['generated'], label='held out')
            axes.axvline(best + 1, color='#9aa2ad', linewidth=1, linestyle=':', label='kept')
        axes.set(xlabel='epoch', ylabel='negative log-likelihood per token')
        axes.legend(frameon=False)
        return _svg(figure)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout='constrained')
    return figure, figure.add_subplot()


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format='svg', metadata={'Date': None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index('<svg') :]
    # Let the page decide the size; the viewBox keeps the proportions.
    return re.sub(r'<svg ([^>]*?)width="[^"]*" ?|height="[^"]*pt" ?', r'<svg \1', text, count=1)
