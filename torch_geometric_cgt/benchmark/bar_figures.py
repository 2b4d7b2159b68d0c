r"""Bars: mean scores side by side, standing for a few groups and lying for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib

from torch_geometric_cgt.benchmark.figures import COLORS, SMALL, STYLE, as_svg, new_figure

FEW = 8  # groups that can stand beside each other with their names below
TICKS = [0, 0.25, 0.5, 0.75, 1]

Heights = Mapping[str, Sequence[float | None]]  # column: of each group, None where there is no bar


def bars(labels: Sequence[str], means: Heights, paper: Heights) -> str:
    r"""Mean scores, one group of bars per label.

    Args:
        labels (list[str]): Of the groups.
        means (dict[str, list]): The heights of each column, :obj:`None`
            where there is no bar; a group without any was not run.
        paper (dict[str, list]): Heights at which a line is drawn over a bar.
    """
    return _standing(labels, means, paper) if len(labels) <= FEW else _lying(labels, means, paper)


def _standing(labels: Sequence[str], means: Heights, paper: Heights) -> str:
    with matplotlib.rc_context({**STYLE, 'font.size': 9}):
        figure, axes = new_figure(max(SMALL[0], 0.75 * len(labels)), SMALL[1])
        width = 0.8 / len(means)
        for i, (column, heights) in enumerate(means.items()):
            left = [x - 0.4 + i * width for x in range(len(labels))]
            shown = [(start, h) for start, h in zip(left, heights, strict=True) if h is not None]
            axes.bar(
                [start for start, _ in shown],
                [height for _, height in shown],
                width * 0.92,
                align='edge',
                color=COLORS[column],
            )
            for start, line in zip(left, paper.get(column, []), strict=column in paper):
                if line is not None:
                    axes.plot([start, start + width * 0.92], [line] * 2, color='#000', lw=1.5)
        for x in _not_run(means):
            axes.text(x, 0.03, 'not run', rotation=90, ha='center', va='bottom', color='#98a0ab')
        long = max(map(len, labels)) > 8
        axes.set_xticks(
            range(len(labels)), labels, rotation=30 * long, ha='right' if long else 'center'
        )
        axes.tick_params(axis='x', length=0)
        axes.set(xlim=(-0.6, len(labels) - 0.4), ylim=(0, 1), yticks=TICKS)
        axes.grid(axis='y', color='#dfe3e8', linewidth=0.7)
        axes.set_axisbelow(True)
        return as_svg(figure)


def _lying(labels: Sequence[str], means: Heights, paper: Heights) -> str:
    with matplotlib.rc_context({**STYLE, 'font.size': 9}):
        figure, axes = new_figure(5.6, 0.5 + 0.36 * len(labels))
        width = 0.8 / len(means)
        for i, (column, lengths) in enumerate(means.items()):
            top = [y - 0.4 + i * width for y in range(len(labels))]
            shown = [(start, n) for start, n in zip(top, lengths, strict=True) if n is not None]
            axes.barh(
                [start for start, _ in shown],
                [length for _, length in shown],
                width * 0.92,
                align='edge',
                color=COLORS[column],
            )
            for start, line in zip(top, paper.get(column, []), strict=column in paper):
                if line is not None:
                    axes.plot([line] * 2, [start, start + width * 0.92], color='#000', lw=1.5)
        for y in _not_run(means):
            axes.text(0.02, y, 'not run', ha='left', va='center', color='#98a0ab')
        axes.set_yticks(range(len(labels)), labels)
        axes.tick_params(axis='y', length=0)
        axes.set(ylim=(len(labels) - 0.4, -0.6), xlim=(0, 1), xticks=TICKS)
        axes.grid(axis='x', color='#dfe3e8', linewidth=0.7)
        axes.set_axisbelow(True)
        return as_svg(figure)


def _not_run(means: Heights) -> list[int]:
    r"""The groups without any bar."""
    groups = zip(*means.values(), strict=True)
    return [i for i, heights in enumerate(groups) if all(h is None for h in heights)]
