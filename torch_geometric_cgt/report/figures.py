r"""The figures of all pages, as SVG text that can be put into HTML."""

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
    'text.parse_math': False,  # names may contain dollar signs
}
# Colours that colour-blind readers can tell apart.
PALETTE = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#882255', '#8c6d1f')
MARKERS = 'os^DvP*Xh<>p'
BAND = 0.03  # width on each side of the diagonal
SMALL = (2.9, 2.2)  # inches
LOWEST = 1e-4  # where logarithmic axes begin
LAYERS = ('roots', 'neighbours', 'their neighbours')
# A dot fits into the ring of the original, so both are visible if scores are equal.
DOTS: dict[str, dict[str, Any]] = {
    'original': {'marker': 'o', 'markersize': 9, 'markerfacecolor': 'none', 'markeredgewidth': 1.8},
    'quantized': {'marker': 'D', 'markersize': 4.5, 'markeredgewidth': 0},
    'generated': {'marker': 'o', 'markersize': 5.5, 'markeredgewidth': 0},
}
PALE = 0.4  # opacity of the paper's scores

Means = Mapping[str, Sequence[float | None]]  # column: one mean per group, None if missing


def scatter(models: list[str], original: list[float], generated: list[float]) -> str:
    r"""Accuracy on the generated graph against accuracy on the original."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_figure(4.6, 4.2)
        low = min(*original, *generated) - 0.05
        high = min(1.02, max(*original, *generated) + 0.05)
        _diagonal(axes, low, high)
        for i, (model, x, y) in enumerate(zip(models, original, generated, strict=True)):
            color = matplotlib.colormaps['tab10'](i % 10)
            axes.scatter([x], [y], color=[color], s=46, label=model, zorder=2)
        axes.set(xlabel='accuracy on the original', ylabel='accuracy on the generated graph')
        axes.legend(frameon=False, loc='upper left')
        return _as_svg(figure)


def pair_scatter(
    points: Sequence[tuple[str, str, float, float]],
    colors: Mapping[str, str],
    markers: Mapping[str, str],
    limits: tuple[float, float],
    metric: str = 'accuracy',
) -> str:
    r"""Scores of many models on many graphs, original against generated. The
    legend is on the page, since several figures share it.

    Args:
        points (list): Dataset, name of a marker, score on the original and
            score on the generated graph.
        colors (dict[str, str]): The colour of each dataset.
        markers (dict[str, str]): The marker of each name.
        limits (tuple[float, float]): The limits of both axes.
        metric (str, optional): The name of the metric.
            (default: :obj:`'accuracy'`)
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_figure(4.6, 4.3)
        _diagonal(axes, *limits)
        for dataset, name in dict.fromkeys(point[:2] for point in points):
            x, y = zip(*(p[2:] for p in points if p[:2] == (dataset, name)), strict=True)
            style: Any = {'color': colors[dataset], 'marker': markers[name], 'alpha': 0.8}
            axes.scatter(x, y, s=34, linewidths=0, zorder=2, **style)
        axes.set(xlabel=f'{metric} on the original', ylabel=f'{metric} on the generated graph')
        return _as_svg(figure)


def marker_svg(marker: str, color: str, hollow: bool = False) -> str:
    r"""A single marker, for a legend in HTML.

    Args:
        marker (str): The marker's name in matplotlib.
        color (str): Its colour.
        hollow (bool, optional): Whether to draw its outline only.
            (default: :obj:`False`)
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


def dot_plot(
    labels: Sequence[str],
    means: Means,
    paper: Means,
    limits: tuple[float, float],
    metric: str = 'accuracy',
    label: str = '',
) -> str:
    r"""Mean scores as dots, one line per group, with a pale line of the paper's
    scores below it.

    Args:
        labels (list[str]): The name of each group.
        means (dict[str, list]): The mean scores of each column, :obj:`None` if
            missing. A group without any score is marked as not run.
        paper (dict[str, list]): The paper's mean scores of the same groups.
        limits (tuple[float, float]): The limits of the axis of scores. They need
            not include 0, since dots show positions and not lengths.
        metric (str, optional): The name of the metric.
            (default: :obj:`'accuracy'`)
        label (str, optional): The label of the axis of groups.
            (default: :obj:`''`)
    """
    lines = [(means, 1.0), (paper, PALE)]
    lines = [(columns, alpha) for columns, alpha in lines if _has_values(columns)]
    with matplotlib.rc_context({**STYLE, 'font.size': 9}):
        height = 0.25 * len(lines) + 0.1
        figure, axes = _new_figure(4.6, 0.6 + height * len(labels))
        for columns, alpha in lines:
            shift = 0.0 if len(lines) == 1 else -0.18 if alpha == 1 else 0.2
            for i in range(len(labels)):
                found = {c: v for c, heights in columns.items() if (v := heights[i]) is not None}
                if not found:
                    continue
                ends = [min(found.values()), max(found.values())]
                axes.plot(ends, [i + shift] * 2, color='#9aa2ad', lw=1, alpha=alpha, zorder=1)
                for column, value in found.items():
                    style = {**DOTS[column], 'color': COLORS[column], 'alpha': alpha}
                    axes.plot([value], [i + shift], linestyle='none', zorder=2, **style)
        for i in _not_run(means):
            middle = sum(limits) / 2
            axes.text(middle, i, 'not run', ha='center', va='center', color='#98a0ab')
        axes.set_yticks(range(len(labels)), [name.replace(' + ', ' +\n') for name in labels])
        axes.tick_params(axis='y', length=0)
        axes.set(ylim=(len(labels) - 0.5, -0.5), xlim=limits, xlabel=metric, ylabel=label)
        axes.grid(axis='x', color='#dfe3e8', linewidth=0.7)
        axes.set_axisbelow(True)
        return _as_svg(figure)


def histogram(counts: Mapping[str, Sequence[int]], label: str, small: bool = False) -> str:
    r"""Histograms of one statistic, one line per graph.

    Args:
        counts (dict[str, list[int]]): The counts of each graph.
        label (str): The name of the statistic.
        small (bool, optional): Whether to draw a small figure without legend
            and label of the y-axis, which are on the page.
            (default: :obj:`False`)
    """
    with matplotlib.rc_context({**STYLE, 'font.size': 9} if small else STYLE):
        figure, axes = _new_figure(*(SMALL if small else (4.6, 3.1)))
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
        return _as_svg(figure)


def loss_curve(train: list[float], holdout: list[float], best: int) -> str:
    r"""The negative log-likelihood of each epoch of the fit."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_figure(4.6, 3.1)
        epochs = range(1, len(train) + 1)
        axes.plot(epochs, train, color=COLORS['original'], label='training')
        if holdout:
            axes.plot(epochs, holdout, color=COLORS['generated'], label='held out')
            axes.axvline(best + 1, color='#9aa2ad', linewidth=1, linestyle=':', label='kept')
        axes.set(xlabel='epoch', ylabel='negative log-likelihood per token')
        axes.legend(frameon=False)
        return _as_svg(figure)


def attack_curves(
    curves: Mapping[str, Sequence[Sequence[float]]], limit: Sequence[tuple[float, float]]
) -> str:
    r"""True positive rates against false positive rates, on logarithmic axes.

    Args:
        curves (dict[str, list]): The points of each attack.
        limit (list[tuple[float, float]]): The points of the highest true
            positive rate that is allowed.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_figure(6.4, 4.2)
        axes.plot([LOWEST, 1], [LOWEST, 1], color='#9aa2ad', linewidth=1, label='random guess')
        allowed = [(max(x, LOWEST), y) for x, y in limit]
        axes.plot(*zip(*allowed, strict=True), color='#b3261e', lw=1.2, ls='--', label='limit')
        for i, (name, points) in enumerate(curves.items()):
            x, y = zip(*((max(p, LOWEST), max(q, LOWEST)) for p, q in points), strict=True)
            axes.plot(x, y, color=PALETTE[i % len(PALETTE)], lw=1.4, label=name)
        axes.set(xscale='log', yscale='log', xlim=(1e-3, 1), ylim=(1e-3, 1))
        axes.set(xlabel='false positive rate', ylabel='true positive rate')
        shares = [0.001, 0.01, 0.1, 1.0]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(shares, [f'{share:.1%}'.replace('.0%', '%') for share in shares])
            axis.set_ticks([], minor=True)
        axes.legend(frameon=False, fontsize=8, loc='upper left', bbox_to_anchor=(1.0, 1.0))
        return _as_svg(figure)


def support_bars(counts: Sequence[Sequence[int]], bins: Sequence[int]) -> str:
    r"""The share of nodes by the support of their path, one bar per layer and
    bin.

    Args:
        counts (list[list[int]]): For each layer, the nodes in each bin.
        bins (list[int]): The lower end of each bin.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_figure(5.2, 3.1)
        width = 0.8 / len(counts)
        for layer, values in enumerate(counts):
            total = max(1, sum(values))
            left = [i - 0.4 + layer * width for i in range(len(bins))]
            name = LAYERS[layer] if layer < len(LAYERS) else f'layer {layer}'
            color = PALETTE[layer % len(PALETTE)]
            heights = [value / total for value in values]
            axes.bar(left, heights, width * 0.92, align='edge', color=color, label=name)
        axes.set_xticks(range(len(bins)), _bin_names(bins))
        axes.tick_params(axis='x', length=0, labelsize=7)
        axes.set(xlabel='source roots with this path', ylabel='share of nodes')
        axes.legend(frameon=False, fontsize=9)
        return _as_svg(figure)


def _new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    r"""A figure with one pair of axes. Its size is in inches."""
    figure = Figure(figsize=(width, height), layout='constrained')
    return figure, figure.add_subplot()


def _diagonal(axes: Axes, low: float, high: float) -> None:
    r"""Draws the line of equal scores and a band around it."""
    ends = [low, high]
    axes.plot(ends, ends, color='#9aa2ad', linewidth=1, zorder=0)
    below, above = [end - BAND for end in ends], [end + BAND for end in ends]
    axes.fill_between(ends, below, above, color='#9aa2ad', alpha=0.15, linewidth=0, zorder=0)
    axes.set(xlim=(low, high), ylim=(low, high), aspect='equal')
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    axes.set(xticks=ticks, yticks=ticks)


def _as_svg(figure: Figure) -> str:
    r"""The figure as SVG text without a size."""
    buffer = io.StringIO()
    figure.savefig(buffer, format='svg', metadata={'Date': None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index('<svg') :]
    # The page sets the size; the viewBox keeps the proportions.
    return re.sub(r'<svg ([^>]*?)width="[^"]*" ?|height="[^"]*pt" ?', r'<svg \1', text, count=1)


def _has_values(columns: Means) -> bool:
    return any(value is not None for values in columns.values() for value in values)


def _not_run(means: Means) -> list[int]:
    r"""The indices of groups without any score."""
    groups = zip(*means.values(), strict=True)
    return [i for i, values in enumerate(groups) if all(value is None for value in values)]


def _bin_names(bins: Sequence[int]) -> list[str]:
    ends = [f'{end - 1}' for end in bins[1:]]
    names = [a if a == b else f'{a}-{b}' for a, b in zip(map(str, bins), ends, strict=False)]
    return [*names, f'{bins[-1]}+']
