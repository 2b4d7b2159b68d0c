r"""``cgt report``: tables and a page of benchmark cells, or of evaluations of several graphs."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = 'tables and a page of finished benchmark cells, or of several evaluations'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add(
        'cells',
        type=Path,
        nargs='+',
        help='files of cells, or folders with such files (*.jsonl), to show beside the paper; or '
        "files report.json of 'cgt evaluate --zoo', to compare graphs",
    )
    add('--out', type=Path, required=True, help='folder of the report')
    add(
        '--notes',
        type=Path,
        help="Markdown to show, with headings '## scenario' or '## scenario, dataset'",
    )


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    from torch_geometric_cgt.report.benchmark_results import read_results
    from torch_geometric_cgt.report.report_files import write_results
    from torch_geometric_cgt.utils.files import require_writable

    if all(path.suffix == '.json' for path in args.cells):
        compare_graphs(args)
        return
    results = read_results(args.cells)
    if args.notes is not None:
        results = results.with_notes(args.notes)
    require_writable(args.out)
    paths = write_results(args.out, results)
    print(results.text(), end='\n\n')
    print(f'Wrote {len(paths)} files to {args.out}')
    for path in paths:
        if path.parent == args.out:
            print(f'  {path}')


def compare_graphs(args: argparse.Namespace) -> None:
    r"""Compares the graphs of several evaluations."""
    from torch_geometric_cgt.report.report_files import write_graphs
    from torch_geometric_cgt.report.zoo_tables import graphs_table, read_judged
    from torch_geometric_cgt.utils.files import require_writable

    graphs = read_judged(args.cells)
    require_writable(args.out)
    table = graphs_table(graphs)
    print(table.to_text(), *table.notes, sep='\n')
    for path in write_graphs(args.out, graphs):
        print(f'Wrote {path}')
