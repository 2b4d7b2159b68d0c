r"""``cgt report``: writes tables and a page of finished benchmark cells."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = 'tables and a page of finished benchmark cells, beside the paper'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add('cells', type=Path, nargs='+', help='files of cells, or folders with such files (*.jsonl)')
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
