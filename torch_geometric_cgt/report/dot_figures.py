r"""Dots on lines: mean scores of several graphs, close enough to see small differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

from torch_geometric_cgt.report.figures import COLORS, STYLE, as_svg, new_figure

# A dot inside a ring hides nothing: where both are at one place, scores are the same.
DOTS: dict[str, dict[str, Any]] = {
    'original': {'marker': 'o', 'markersize': 9, 'markerfacecolor': 'none', 'markeredgewidth': 1.8},
    'quantized': {'marker': 'D', 'markersize': 4.5, 'markeredgewidth': 0},
    'generated': {'marker': 'o', 'markersize': 5.5, 'markeredgewidth': 0},
}
PALE = 0.4  # the paper's

Means = Mapping[str, Sequence[float | None]]  # column: of each group, None where there is no dot


def dots(
    labels: Sequence[str],
    means: Means,
    paper: Means,
    limits: tuple[float, float],
    metric: str = 'accuracy',
    label: str = '',
) -> str:
    r"""Mean scores, one line per group, and a pale one of the paper below.

    Args:
        labels (list[str]): Of the groups.
        means (dict[str, list]): The scores of each column, :obj:`None` where
            there is none; a group without any was not run.
        paper (dict[str, list]): The paper's, of the same groups.
        limits (tuple[float, float]): Of the scores. They need not start at 0:
            places are compared here, not lengths.
        metric (str, optional): What a score is. (default: :obj:`'accuracy'`)
        label (str, optional): Of all groups. (default: :obj:`''`)
    """
    lines = [(means, 1.0), (paper, PALE)]
    lines = [(columns, alpha) for columns, alpha in lines if _known(columns)]
    with matplotlib.rc_context({**STYLE, 'font.size': 9}):
        height = 0.25 * len(lines) + 0.1
        figure, axes = new_figure(4.6, 0.6 + height * len(labels))
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
        return as_svg(figure)


def _known(columns: Means) -> bool:
    return any(value is not None for values in columns.values() for value in values)


def _not_run(means: Means) -> list[int]:
    r"""The groups without any dot."""
    groups = zip(*means.values(), strict=True)
    return [i for i, values in enumerate(groups) if all(value is None for value in values)]
