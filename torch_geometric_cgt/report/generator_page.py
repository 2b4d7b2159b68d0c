r"""The page and the figure of a comparison of generators, and their files."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.benchmark.judge import CEILING
from torch_geometric_cgt.report.generator_tables import (
    NAMES,
    generator_table,
    overall_table,
    status_text,
)
from torch_geometric_cgt.report.report_files import escape_markdown, has_extra, to_json, to_markdown
from torch_geometric_cgt.utils.files import write_bytes, write_text
from torch_geometric_cgt.utils.limited_process import FINISHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTROLS = (CEILING, 'quantized')  # columns that are no generators
PADDING = 0.04  # around the scores of a figure
COLUMNS, DPI = 5, 100  # of the figure


def write_comparison(folder: Path, comparison: Mapping[str, Any]) -> list[Path]:
    r"""Writes :obj:`generators.json` and, with the :obj:`report` extra,
    :obj:`generators.md`, :obj:`generators.html` and, if there are scores, the figure
    as :obj:`generators.png`.

    Args:
        folder (Path): Where to write.
        comparison (dict): The output of
            :func:`~torch_geometric_cgt.benchmark.generator_verdicts.compare_results`.
    """
    paths = [folder / 'generators.json']
    write_text(paths[0], to_json(comparison))
    if has_extra('generators.md and generators.html'):
        paths += [folder / 'generators.md', folder / 'generators.html']
        write_text(paths[1], render_markdown(comparison))
        write_text(paths[2], render_comparison(comparison))
        image = scatter_png(comparison)
        if image is not None:
            paths.append(folder / 'generators.png')
            write_bytes(paths[3], image)
    return paths


def render_markdown(comparison: Mapping[str, Any]) -> str:
    r"""The tables as Markdown.

    Args:
        comparison (dict): As in :func:`write_comparison`.
    """
    parts = ['# Generators, compared']
    for table in (overall_table(comparison), generator_table(comparison)):
        parts += [f'## {table.title}', to_markdown(table), *map(escape_markdown, table.notes)]
    return '\n\n'.join(parts) + '\n'


def render_comparison(comparison: Mapping[str, Any]) -> str:
    r"""The page, with one scatter plot per generator as in the paper's Figure 3.

    Args:
        comparison (dict): As in :func:`write_comparison`.
    """
    from torch_geometric_cgt.report.html_pages import render_template

    return render_template(
        'generators.html',
        overall=overall_table(comparison),
        table=generator_table(comparison),
        scatters=scatters_of(comparison),
        unfinished=unfinished_of(comparison),
        said=sentences_of(comparison),
        closest=closest_of(comparison),
    )


def closest_of(comparison: Mapping[str, Any]) -> str:
    r"""A sentence with the generator whose scores are closest to those of the
    original, among those that finished on all graphs.

    Args:
        comparison (dict): As in :func:`write_comparison`.
    """
    overall, num_graphs = comparison['overall'], len(comparison['graphs'])
    finished = {
        name: float(found['mse'])
        for name, found in overall.items()
        if name not in CONTROLS and found['num_graphs'] == num_graphs
    }
    if not finished:
        return ''
    order = sorted(finished, key=finished.__getitem__)
    text = f'Scores on {order[0]} are closest to the original: MSE {finished[order[0]]:.5f}'
    if len(order) > 1:
        text += f' ({order[1]}: {finished[order[1]]:.5f}'
        text += f'; {order[-1]}: {finished[order[-1]]:.5f})' if len(order) > 2 else ')'
    if CEILING in overall:
        text += f'. The original with another split and seed: {overall[CEILING]["mse"]:.5f}'
    return text + '.'


def scatters_of(comparison: Mapping[str, Any]) -> dict[str, Any]:
    r"""One scatter plot per generator: the score of each model on each graph, original
    against generated, all with the same axes.

    Args:
        comparison (dict): As in :func:`write_comparison`.
    """
    from torch_geometric_cgt.report import figures

    graphs = comparison['graphs']
    columns = list(comparison['overall'])
    limits, colors = score_limits(comparison), graph_colors(comparison)
    if limits is None:
        return {'figures': [], 'colors': {}}
    drawn = []
    for column in columns:
        points = [
            (g['graph'], 'model', x, g['means'][column][model])
            for g in graphs
            if column in g['means']
            for model, x in g['means']['original'].items()
        ]
        drawn.append((column, figures.pair_scatter(points, colors, {'model': 'o'}, limits)))
    return {'figures': drawn, 'colors': colors}


def unfinished_of(comparison: Mapping[str, Any]) -> list[str]:
    r"""A sentence for each build that did not finish.

    Args:
        comparison (dict): As in :func:`write_comparison`.
    """
    return [
        f'{column} on {graph["graph"]}: {status_text(found)}, after {_time(found["seconds"])}'
        f'{found["peak_bytes"] / (1 << 30):.1f} GiB.'
        for graph in comparison['graphs']
        for column, found in graph['columns'].items()
        if found.get('status', FINISHED) != FINISHED
    ]


def _time(seconds: float | None) -> str:
    return '' if seconds is None else f'{seconds / 60:.1f} minutes of processor time and '


def sentences_of(comparison: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    r"""What the card of each generator says, on the first graph where it finished.

    Args:
        comparison (dict): As in :func:`write_comparison`.
    """
    out: dict[str, dict[str, Any]] = {}
    for graph in comparison['graphs']:
        for column, found in graph['columns'].items():
            if 'sentences' in found and column not in out:
                out[column] = {
                    'guaranteed': found['guaranteed'],
                    'first_limit': found['not_guaranteed'][0],
                }
    return out


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
