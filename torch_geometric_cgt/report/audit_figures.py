r"""Figures of an audit, as SVG text that stands by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib

from torch_geometric_cgt.report.figures import PALETTE, STYLE, as_svg, new_figure

LEAST = 1e-4  # what a logarithmic axis starts from
LAYERS = ('roots', 'neighbours', 'their neighbours')


def attack_curves(
    curves: Mapping[str, Sequence[Sequence[float]]], limit: Sequence[tuple[float, float]]
) -> str:
    r"""True against false positives, on logarithmic axes.

    Args:
        curves (dict[str, list]): The points of each attack.
        limit (list[tuple[float, float]]): The most that is allowed.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = new_figure(6.4, 4.2)
        axes.plot([LEAST, 1], [LEAST, 1], color='#9aa2ad', linewidth=1, label='guessing')
        allowed = [(max(x, LEAST), y) for x, y in limit]
        axes.plot(*zip(*allowed, strict=True), color='#b3261e', lw=1.2, ls='--', label='limit')
        for i, (name, points) in enumerate(curves.items()):
            x, y = zip(*((max(p, LEAST), max(q, LEAST)) for p, q in points), strict=True)
            axes.plot(x, y, color=PALETTE[i % len(PALETTE)], lw=1.4, label=name)
        axes.set(xscale='log', yscale='log', xlim=(1e-3, 1), ylim=(1e-3, 1))
        axes.set(xlabel='share of others taken for members', ylabel='share of members found')
        shares = [0.001, 0.01, 0.1, 1.0]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(shares, [f'{share:.1%}'.replace('.0%', '%') for share in shares])
            axis.set_ticks([], minor=True)
        axes.legend(frameon=False, fontsize=8, loc='upper left', bbox_to_anchor=(1.0, 1.0))
        return as_svg(figure)


def support_bars(histogram: Sequence[Sequence[int]], bins: Sequence[int]) -> str:
    r"""The share of slots by the support of their path, a group of bars per bin.

    Args:
        histogram (list[list[int]]): For each layer, the slots in each bin.
        bins (list[int]): The lower ends of the bins.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = new_figure(5.2, 3.1)
        width = 0.8 / len(histogram)
        for layer, counts in enumerate(histogram):
            total = max(1, sum(counts))
            left = [i - 0.4 + layer * width for i in range(len(bins))]
            name = LAYERS[layer] if layer < len(LAYERS) else f'layer {layer}'
            color = PALETTE[layer % len(PALETTE)]
            heights = [count / total for count in counts]
            axes.bar(left, heights, width * 0.92, align='edge', color=color, label=name)
        axes.set_xticks(range(len(bins)), _names(bins))
        axes.tick_params(axis='x', length=0, labelsize=7)
        axes.set(xlabel='source roots that show the path', ylabel='share of nodes')
        axes.legend(frameon=False, fontsize=9)
        return as_svg(figure)


def _names(bins: Sequence[int]) -> list[str]:
    ends = [f'{end - 1}' for end in bins[1:]]
    names = [a if a == b else f'{a}-{b}' for a, b in zip(map(str, bins), ends, strict=False)]
    return [*names, f'{bins[-1]}+']
