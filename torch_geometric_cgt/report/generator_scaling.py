r"""Time and memory of the builds of generators against the size of the graph."""

from __future__ import annotations

import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.benchmark.generator_comparison import BUILD, GIB
from torch_geometric_cgt.report.report_files import escape_markdown, has_extra, to_json, to_markdown
from torch_geometric_cgt.report.text_tables import NOT_RUN, TextTable
from torch_geometric_cgt.utils.files import write_bytes, write_text
from torch_geometric_cgt.utils.limited_process import FINISHED, OUT_OF_MEMORY, OUT_OF_TIME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STOPS = {OUT_OF_TIME: 'x', OUT_OF_MEMORY: '+'}  # markers of builds that met a limit
DPI = 150


@dataclass(frozen=True)
class Scaled:
    r"""The build of one generator on one graph, or the mean over its seeds.

    Args:
        graph (str): The graph.
        generator (str): The generator.
        num_nodes (int): The number of nodes of the graph.
        num_edges (int): The number of its edges, both directions counted.
        status (str): How the build ended; that of the worst seed.
        seconds (float): The processor time.
        wall_seconds (float): The wall time.
        peak_bytes (int): The largest memory.
    """

    graph: str
    generator: str
    num_nodes: int
    num_edges: int
    status: str
    seconds: float
    wall_seconds: float
    peak_bytes: int

    @property
    def text(self) -> str:
        r"""The time and the memory, or how the build ended."""
        if self.status != FINISHED:
            return self.status
        short = self.seconds < 60
        time = f'{self.seconds:.0f} s' if short else f'{self.seconds / 60:.1f} min'
        return f'{time}, {self.peak_bytes / GIB:.1f} GiB'


def scaled_builds(results: Sequence[dict[str, Any]]) -> list[Scaled]:
    r"""The builds among the results of a comparison, small graphs first.

    Args:
        results (list[dict]): The output of
            :meth:`~torch_geometric_cgt.benchmark.generator_comparison.Comparison.run`.
    """
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        if result['part'] == BUILD:
            runs.setdefault((result['graph'], result['column']), []).append(result)
    out = []
    for (graph, generator), own in runs.items():
        bad = [run['status'] for run in own if run['status'] != FINISHED]
        out.append(
            Scaled(
                graph,
                generator,
                int(own[0]['num_nodes']),
                int(own[0]['num_edges']),
                bad[0] if bad else FINISHED,
                statistics.fmean(run['processor_seconds'] for run in own),
                statistics.fmean(run['wall_seconds'] for run in own),
                max(int(run['peak_bytes']) for run in own),
            )
        )
    return sorted(out, key=lambda found: found.num_nodes)  # stable: in the order of generators


def scaling_table(results: Sequence[dict[str, Any]]) -> TextTable:
    r"""Processor time and peak memory of each generator on each graph.

    Args:
        results (list[dict]): As in :func:`scaled_builds`.
    """
    builds = scaled_builds(results)
    graphs = {found.graph: found for found in builds}
    generators = list(dict.fromkeys(r['column'] for r in results if r['part'] == BUILD))
    texts = {(found.generator, found.graph): found.text for found in builds}
    body = [[name, *(texts.get((name, graph), NOT_RUN) for graph in graphs)] for name in generators]
    sizes = '; '.join(
        f'{name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges'
        for name, graph in graphs.items()
    )
    notes = [
        f'{sizes}.',
        'Processor time and the largest memory of the process of the build: quantization, '
        'which all generators share, fit and sampling of as many trees as the graph has roots.',
    ]
    if limits := _limits(results):
        notes.append(f'Limits: {limits}.')
    return TextTable('Time and memory of builds', ['Generator', *graphs], body, 0, notes)


def write_scaling(folder: Path, results: Sequence[dict[str, Any]]) -> list[Path]:
    r"""Writes :obj:`scaling.json` and, with the :obj:`report` extra, :obj:`scaling.md`
    and the figure as :obj:`scaling.png`.

    Args:
        folder (Path): Where to write.
        results (list[dict]): As in :func:`scaled_builds`.
    """
    paths = [folder / 'scaling.json']
    builds = [result for result in results if result['part'] == BUILD]
    write_text(paths[0], to_json({'builds': builds}))
    if has_extra('scaling.md and scaling.png'):
        paths += [folder / 'scaling.md', folder / 'scaling.png']
        table = scaling_table(results)
        parts = [f'# {table.title}', to_markdown(table), *map(escape_markdown, table.notes)]
        write_text(paths[1], '\n\n'.join(parts) + '\n')
        image = io.BytesIO()
        scaling_figure(results).savefig(image, format='png', dpi=DPI)
        write_bytes(paths[2], image.getvalue())
    return paths


def scaling_figure(results: Sequence[dict[str, Any]]) -> Figure:
    r"""Processor time and peak memory against the number of nodes, both with logarithmic
    axes. Builds that met a limit are marked at the limit.

    Args:
        results (list[dict]): As in :func:`scaled_builds`.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from torch_geometric_cgt.report import figures

    builds = scaled_builds(results)
    seconds, max_bytes = _highest(results, 'seconds'), _highest(results, 'max_bytes')
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(11.5, 5.0), layout='constrained')
        left, right = figure.subplots(1, 2)
        _curves(left, builds, 'seconds', 60.0, seconds, OUT_OF_TIME)
        _curves(right, builds, 'peak_bytes', GIB, max_bytes, OUT_OF_MEMORY)
        left.set(ylabel='processor minutes')
        right.set(ylabel='largest memory in GiB')
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc='outside right center', frameon=False)
    return figure


def _curves(
    axes: Axes, builds: Sequence[Scaled], name: str, scale: float, limit: float | None, stop: str
) -> None:
    r"""One line per generator. Only finished builds are joined."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    from torch_geometric_cgt.report.figures import MARKERS, PALETTE

    axes.set(xscale='log', yscale='log', xlabel='nodes of the graph')
    for i, generator in enumerate(dict.fromkeys(found.generator for found in builds)):
        own = [found for found in builds if found.generator == generator]
        done = [found for found in own if found.status == FINISHED]
        x, y = [f.num_nodes for f in done], [getattr(f, name) / scale for f in done]
        color, style = PALETTE[i % len(PALETTE)], '-' if i < len(PALETTE) else '--'
        marker = MARKERS[i % len(MARKERS)]
        axes.plot(x, y, style, color=color, marker=marker, markersize=5, lw=1.3, label=generator)
        for found in own:
            if found.status == stop and limit is not None:
                above = limit / scale * (1.0 + 0.06 * (i % 6))  # stops of one graph side by side
                axes.plot([found.num_nodes], [above], STOPS[stop], color=color, markersize=8, mew=2)
    if limit is not None and any(found.status == stop for found in builds):
        axes.axhline(limit / scale, color='#999999', lw=0.8, ls=':')
        axes.annotate(stop, (0.02, limit / scale), xycoords=('axes fraction', 'data'), va='bottom')
    graphs = {found.graph: found.num_nodes for found in builds}
    # Every second name is lower, so that graphs of about the same size can be read.
    names = [('\n\n' if i % 2 else '') + f'{g}\n{n:,}' for i, (g, n) in enumerate(graphs.items())]
    axes.set_xticks(list(graphs.values()), names, fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:g}'))
    axes.grid(axis='y', color='#e5e5e5', lw=0.6)
    axes.set_axisbelow(True)


def _highest(results: Sequence[dict[str, Any]], name: str) -> float | None:
    r"""The largest limit that a build had."""
    known = [r[name] for r in results if r['part'] == BUILD and r.get(name) is not None]
    return max(known, default=None)


def _limits(results: Sequence[dict[str, Any]]) -> str:
    seconds, max_bytes = _highest(results, 'seconds'), _highest(results, 'max_bytes')
    clock = next((r['clock'] for r in results if r['part'] == BUILD), '')
    words = [] if seconds is None else [f'{seconds / 60:g} minutes of {clock} time']
    words += [] if max_bytes is None else [f'{max_bytes / GIB:g} GiB']
    return ', '.join(words)
