r"""Figures of a report, as SVG text that stands by itself."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

COLORS = {'original': '#5b6472', 'quantized': '#d98e2b', 'generated': '#2563b8'}
STYLE: Any = {
    'font.size': 10,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'svg.fonttype': 'none',
    'svg.hashsalt': 'cgt',
    'text.parse_math': False,  # a name with dollar signs is a name
}
# Told apart by those who do not see all colours.
PALETTE = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#882255', '#8c6d1f')
MARKERS = 'os^DvP*Xh<>p'
BAND = 0.03  # on both sides of the diagonal
SMALL = (2.9, 2.2)  # inches


def scatter(models: list[str], original: list[float], generated: list[float]) -> str:
    r"""Scores on the generated graph against those on the original."""
    with matplotlib.rc_context(STYLE):
        figure, axes = new_figure(4.6, 4.2)
        low = min(*original, *generated) - 0.05
        high = min(1.02, max(*original, *generated) + 0.05)
        _diagonal(axes, low, high)
        for i, (model, x, y) in enumerate(zip(models, original, generated, strict=True)):
            color = matplotlib.colormaps['tab10'](i % 10)
            axes.scatter([x], [y], color=[color], s=46, label=model, zorder=2)
        axes.set(xlabel='accuracy on the original', ylabel='accuracy on the generated graph')
        axes.legend(frameon=False, loc='upper left')
        return as_svg(figure)


def pair_scatter(
    points: Sequence[tuple[str, str, float, float]],
    colors: Mapping[str, str],
    markers: Mapping[str, str],
    limits: tuple[float, float],
    metric: str = 'accuracy',
) -> str:
    r"""Scores of many models on many graphs. The page explains colours and
    markers, for several such figures at once.

    Args:
        points (list): Dataset, name of a marker, score on the original and
            score on the generated graph.
        colors (dict[str, str]): Of the datasets.
        markers (dict[str, str]): By their names.
        limits (tuple[float, float]): Of both axes.
        metric (str, optional): What a score is. (default: :obj:`'accuracy'`)
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = new_figure(4.6, 4.3)
        _diagonal(axes, *limits)
        for dataset, name in dict.fromkeys(point[:2] for point in points):
            x, y = zip(*(p[2:] for p in points if p[:2] == (dataset, name)), strict=True)
            style: Any = {'color': colors[dataset], 'marker': markers[name], 'alpha': 0.8}
            axes.scatter(x, y, s=34, linewidths=0, zorder=2, **style)
        axes.set(xlabel=f'{metric} on the original', ylabel=f'{metric} on the generated graph')
        return as_svg(figure)


def mark_svg(marker: str, color: str, hollow: bool = False) -> str:
    r"""A marker alone, for a line of text.

    Args:
        marker (str): As matplotlib names it.
        color (str): Its colour.
        hollow (bool, optional): Whether it is a ring. (default: :obj:`False`)
    """
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    letters = {Path.MOVETO: 'M', Path.LINETO: 'L', Path.CURVE3: 'Q', Path.CURVE4: 'C'}
    parts = []
    for vertices, code in path.iter_segments(curves=True, simplify=False):
        letter = letters.get(code, 'Z')
        numbers = ' '.join(f'{n:.3f}' for n in vertices * ([1, -1] * (len(vertices) // 2)))
        parts.append(letter if letter == 'Z' else letter + numbers)
    paint = f'fill="none" stroke="{color}" stroke-width=".22"' if hollow else f'fill="{color}"'
    return f'<svg class="mark" viewBox="-.7 -.7 1.4 1.4"><path d="{"".join(parts)}" {paint}/></svg>'


def histogram(counts: Mapping[str, Sequence[int]], label: str, small: bool = False) -> str:
    r"""Histograms of one statistic, one line per graph.

    Args:
        counts (dict[str, list[int]]): The counts of each graph.
        label (str): Of the statistic.
        small (bool, optional): Whether the page explains colours and height
            of many such figures at once. (default: :obj:`False`)
    """
    with matplotlib.rc_context({**STYLE, 'font.size': 9} if small else STYLE):
        figure, axes = new_figure(*(SMALL if small else (4.6, 3.1)))
        for column, values in counts.items():
            total = max(1, sum(values))
            axes.stairs(
                [value / total for value in values],
                [i - 0.5 for i in range(len(values) + 1)],
                color=COLORS.get(column, '#009e73'),
                label=column,
                linewidth=1.6,
                fill=column == 'original',
                alpha=0.35 if column == 'original' else 1.0,
            )
        axes.set(xlabel=label, ylabel='' if small else 'share of computation graphs')
        if not small:
            axes.legend(frameon=False)
        return as_svg(figure)


def loss_curve(train: list[float], holdout: list[float], best: int) -> str:
    r"""The likelihood during the fit."""
    with matplotlib.rc_context(STYLE):
        figure, axes = new_figure(4.6, 3.1)
        epochs = range(1, len(train) + 1)
        axes.plot(epochs, train, color=COLORS['original'], label='training')
        if holdout:
            axes.plot(epochs, holdout, color=COLORS['generated'], label='held out')
            axes.axvline(best + 1, color='#9aa2ad', linewidth=1, linestyle=':', label='kept')
        axes.set(xlabel='epoch', ylabel='negative log-likelihood per token')
        axes.legend(frameon=False)
        return as_svg(figure)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    r"""A figure with one pair of axes, in inches."""
    figure = Figure(figsize=(width, height), layout='constrained')
    return figure, figure.add_subplot()


def _diagonal(axes: Axes, low: float, high: float) -> None:
    r"""Where both scores are the same, and a band of those that are close."""
    ends = [low, high]
    axes.plot(ends, ends, color='#9aa2ad', linewidth=1, zorder=0)
    below, above = [end - BAND for end in ends], [end + BAND for end in ends]
    axes.fill_between(ends, below, above, color='#9aa2ad', alpha=0.15, linewidth=0, zorder=0)
    axes.set(xlim=(low, high), ylim=(low, high), aspect='equal')
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    axes.set(xticks=ticks, yticks=ticks)


def as_svg(figure: Figure) -> str:
    r"""A figure as text, of the size that the page gives it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format='svg', metadata={'Date': None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index('<svg') :]
    # Let the page decide the size; the viewBox keeps the proportions.
    return re.sub(r'<svg ([^>]*?)width="[^"]*" ?|height="[^"]*pt" ?', r'<svg \1', text, count=1)
