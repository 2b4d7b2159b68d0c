r"""``cgt evaluate``: compares GNNs on the original and on the synthetic graph."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from torch_geometric_cgt.cli.arguments import (
    MODELS,
    add_build_arguments,
    build_dataset,
    leave_process_group,
    require_report_folder,
    secrets_notice,
    split_names,
)
from torch_geometric_cgt.cli.source_arguments import require_test_nodes, source_of

HELP = 'compare GNNs on the original, the quantized and the generated graph'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add_build_arguments(parser)
    add = parser.add_argument
    add('--release', type=Path, help='evaluate this release, do not build')
    add(
        '--models',
        help=f'comma-separated names (default: {",".join(MODELS)}; with --zoo, the whole zoo)',
    )
    add(
        '--zoo',
        action='store_true',
        help="judge by a zoo of GNNs on PyG's layers; takes minutes",
    )
    add(
        '--control',
        action='store_true',
        help='also train on the generated graph with shuffled neighbours, which must be worse',
    )
    add(
        '--graph',
        action='store_true',
        help='also join the trees into one graph, and compare its degrees, homophily, clustering '
        "and GNNs with the source's",
    )
    add('--seeds', type=int, default=1, help='number of seeds to average (default: %(default)s)')
    add(
        '--publishable',
        action='store_true',
        help='leave out all statistics of the source, so that the page may be published',
    )
    add('--out', type=Path, required=True, help='folder of the report')


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    if args.seeds < 1:
        raise ValueError(f"'--seeds' must be at least 1 (got {args.seeds})")

    from torch_geometric_cgt.benchmark import evaluate_dataset
    from torch_geometric_cgt.datasets import SyntheticCGTDataset
    from torch_geometric_cgt.report.publication import publication_of
    from torch_geometric_cgt.report.report_files import write_evaluation
    from torch_geometric_cgt.report.zoo_tables import evaluation_tables

    models = _models(args)
    require_report_folder(args.out)
    source = None if args.publishable else source_of(args)
    if source is not None:
        require_test_nodes(source)
    started = time.monotonic()
    if args.release is not None:
        datasets = [SyntheticCGTDataset.load(args.release)] * args.seeds
    else:
        datasets = [build_dataset(args, args.seed + i) for i in range(args.seeds)]
    if not leave_process_group(args):
        return
    built = time.monotonic()
    result = evaluate_dataset(
        source,
        datasets,
        models,
        log=not args.quiet,
        publishable=args.publishable,
        zoo=args.zoo,
        graph=args.graph,
        ceiling=not args.publishable,
        control=args.control,
    )
    seconds = {'build': built - started, 'evaluate': time.monotonic() - built}
    report = {'card': datasets[0].card, **result.to_dict()}
    report['num_builds'] = 1 if args.release is not None else args.seeds
    if datasets[0].history is not None and not args.publishable:
        report['fit'] = datasets[0].history
    for path in write_evaluation(args.out, report):
        print(f'Wrote {path}')
    print(result.text())
    for table in evaluation_tables(report):
        print('', table.title, table.to_text(), *table.notes, sep='\n')
    print(publication_of(report)['notice'])
    if args.release is None:
        print(secrets_notice(datasets[0]))
    print(json.dumps({name: round(value, 1) for name, value in seconds.items()}), 'seconds')


def _models(args: argparse.Namespace) -> list[str]:
    r"""The names of the GNNs, which must be known."""
    from torch_geometric_cgt.benchmark import ALL_MODELS, PLAIN, ZOO

    names = split_names(args.models) or (ZOO if args.zoo else MODELS)
    models = [name for name in names if name]
    allowed = [*ZOO, *PLAIN] if args.zoo else list(ALL_MODELS)
    if not models or (unknown := [name for name in models if name not in allowed]):
        raise ValueError(f'Unknown models {unknown if models else []}; choose from {allowed}')
    return models
