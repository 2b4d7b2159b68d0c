r"""``cgt benchmark``: runs cells of the paper's experiments, or compares generators."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from torch_geometric_cgt.cli import compare_generators
from torch_geometric_cgt.cli.arguments import EXPERIMENTS, split_names

HELP = "run cells of the paper's experiments, or compare generators; finished cells are kept"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    names = [f'{number} ({name})' if number else name for name, number in EXPERIMENTS.items()]
    add('--scenario', help=f'comma-separated, of {", ".join(names)}')
    add('--datasets', help='comma-separated names (default: those of the paper)')
    add('--levels', help='comma-separated levels of the scenario (default: all)')
    add('--models', help='comma-separated names (default: those of the scenario)')
    add('--variants', help="comma-separated variants of the generator; '' is the default one")
    add('--seeds', type=int, default=1, help='number of seeds (default: %(default)s)')
    add('--k', type=int, default=30, help='minimum nodes per feature vector (default: %(default)s)')
    add('--epochs', type=int, help='of the generator (default: 1 to 25, by the size of the graph)')
    add('--jobs', type=int, default=1, help='processes (default: %(default)s)')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--cells', type=Path, default=Path('cells.jsonl'), help='(default: %(default)s)')
    add('--quiet', action='store_true', help='no progress bar')
    compare_generators.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    r"""Runs the command."""
    if args.seeds < 1:
        raise ValueError(f"'--seeds' must be at least 1 (got {args.seeds})")
    if (args.scenario is None) == (args.generators is None):
        raise ValueError("Give '--scenario' or '--generators', one of the two")
    if args.generators is not None:
        return compare_generators.run(args)

    from torch_geometric_cgt.benchmark.experiments import BenchmarkConfig, find_experiment
    from torch_geometric_cgt.benchmark.runner import run_cells
    from torch_geometric_cgt.report.benchmark_results import Results, read_same_settings
    from torch_geometric_cgt.report.text_tables import to_text_table
    from torch_geometric_cgt.utils.files import require_writable

    config = BenchmarkConfig(k=args.k, epochs=args.epochs)
    keys = []
    for name in split_names(args.scenario) or []:
        keys += find_experiment(name).keys(
            split_names(args.datasets),
            args.seeds,
            levels=split_names(args.levels),
            models=split_names(args.models),
            variants=split_names(args.variants),
        )
    require_writable(args.cells.absolute().parent)
    started = time.monotonic()
    try:
        cells = run_cells(keys, args.cells, config, args.root, args.jobs, not args.quiet)
    except KeyboardInterrupt:
        print(
            f"cgt: interrupted. The same command resumes; finished cells are in '{args.cells}'",
            file=sys.stderr,
        )
        return 130
    results = Results.from_cells(cells).only_run()
    for plan in results.tables:
        print(to_text_table(plan).to_text(), end='\n\n')
    print(results.with_verdicts_from(read_same_settings(args.cells, cells)).text(), end='\n\n')
    print(f'{len(cells)} cells in {args.cells}, {time.monotonic() - started:.0f} seconds')
    print(f'A page of them: cgt report {args.cells} --out report')
    return 0
