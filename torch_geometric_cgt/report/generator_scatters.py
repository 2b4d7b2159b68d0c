r"""The figure of a comparison of generators: one scatter plot per generator."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.report.generator_tables import NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PADDING = 0.04  # around the scores
COLUMNS = 5
DPI = 100


def score_limits(comparison: Mapping[str, Any]) -> tuple[float, float] | None:
    r"""The limits of axes that hold the scores of all models on all graphs, or
    :obj:`None` without scores.

    Args:
        comparison (dict): The output of
            :func:`~torch_geometric_cgt.benchmark.generator_verdicts.compare_results`.
    """
    graphs = comparison['graphs']
    scores = [v for g in graphs for means in g['means'].values() for v in means.values()]
    return (min(scores) - PADDING, max(scores) + PADDING) if scores else None


def graph_colors(comparison: Mapping[str, Any]) -> dict[str, str]:
    r"""The colour of each graph.

    Args:
        comparison (dict): As in :func:`score_limits`.
    """
    from torch_geometric_cgt.report.figures import PALETTE

    graphs = comparison['graphs']
    return {g['graph']: PALETTE[i % len(PALETTE)] for i, g in enumerate(graphs)}


def scatter_figure(comparison: Mapping[str, Any]) -> Figure | None:
    r"""The score of each model on each graph, original against generated: one plot per
    generator, all with the same axes, as in the paper's Figure 3. Without scores, there is
    no figure.

    Args:
        comparison (dict): As in :func:`score_limits`.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from torch_geometric_cgt.report import figures

    limits, colors = score_limits(comparison), graph_colors(comparison)
    columns = list(comparison['overall'])
    if limits is None or not columns:
        return None
    num_rows = math.ceil(len(columns) / COLUMNS)
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(2.6 * COLUMNS, 2.5 * num_rows + 0.6), layout='constrained')
        grid = figure.subplots(num_rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(columns) :]:
            axes.set_axis_off()
        for axes, column in zip(grid.flat, columns, strict=False):
            axes.plot(limits, limits, color='#999999', lw=0.8)
            axes.set(xlim=limits, ylim=limits, title=NAMES.get(column, column), aspect='equal')
            for graph in comparison['graphs']:
                if column not in graph['means']:
                    continue
                original, own = graph['means']['original'], graph['means'][column]
                y = [own[model] for model in original]
                style: Any = {'color': colors[graph['graph']], 'label': graph['graph']}
                axes.scatter(list(original.values()), y, s=16, linewidths=0, alpha=0.8, **style)
        known = {dots.get_label(): dots for axes in grid.flat for dots in axes.collections}
        style = {'loc': 'outside upper center', 'ncols': len(known), 'frameon': False}
        figure.legend(known.values(), known.keys(), **style)
        figure.supxlabel('score on the original')
        figure.supylabel('score on the generated graph')
    return figure


def scatter_png(comparison: Mapping[str, Any]) -> bytes | None:
    r"""The figure as a PNG image.

    Args:
        comparison (dict): As in :func:`score_limits`.
    """
    figure = scatter_figure(comparison)
    if figure is None:
        return None
    image = io.BytesIO()
    figure.savefig(image, format='png', dpi=DPI)
    return image.getvalue()
