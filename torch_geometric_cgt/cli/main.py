r"""The ``cgt`` command: argument parsing, and what a person reads."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.audit import find_build, run_audit
from torch_geometric_cgt.benchmark import ALL_MODELS, MODELS, Evaluation, evaluate_dataset
from torch_geometric_cgt.benchmark.experiments import BenchmarkConfig, find_experiment
from torch_geometric_cgt.benchmark.runner import run_cells
from torch_geometric_cgt.cli.arguments import (
    AUDIT_CODES,
    add_audit_arguments,
    add_benchmark_arguments,
    add_build_arguments,
    add_price_arguments,
)
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.datasets import SyntheticCGTDataset, load_source
from torch_geometric_cgt.datasets.sources import cache_folder
from torch_geometric_cgt.errors import CGTError
from torch_geometric_cgt.pipeline.private_config import PrivateConfig
from torch_geometric_cgt.pipeline.private_plan import PrivatePlan, PublicNumbers
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.release.release import read_release
from torch_geometric_cgt.report.audit_page import write_audit
from torch_geometric_cgt.report.evaluation_page import write_report
from torch_geometric_cgt.report.method_tables import shown_table
from torch_geometric_cgt.report.price import price_table
from torch_geometric_cgt.report.results import Results, read_beside, read_results, write_results
from torch_geometric_cgt.report.table_files import as_text
from torch_geometric_cgt.training import FitConfig, join_world, leave_world, resolve_device
from torch_geometric_cgt.utils.files import require_writable
from torch_geometric_cgt.version import __version__

ANY_EPSILON = 10.0  # where a search for the cost of noise starts


def main(argv: Sequence[str] | None = None) -> int:
    r"""Runs one command and returns its exit code."""
    args = make_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = args.run(args)
    except (CGTError, ValueError, OSError) as error:
        print(f'cgt: error: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            'cgt: interrupted; the same command goes on from the last checkpoint', file=sys.stderr
        )
        return 130
    return int(code or 0)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f'cgt: warning: {message}', file=sys.stderr)


def make_parser() -> argparse.ArgumentParser:
    r"""The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog='cgt', description='Synthetic, privacy-controlled substitutes of graphs for PyG.'
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    commands = parser.add_subparsers(required=True, metavar='command')

    command = commands.add_parser(
        'synthesize', help='make a synthetic substitute of a graph and write a release of it'
    )
    add_build_arguments(command)
    command.add_argument('--out', type=Path, required=True, help='folder of the release (new)')
    command.set_defaults(run=synthesize)

    command = commands.add_parser(
        'evaluate', help='compare GNNs on the original, the quantized and the generated graph'
    )
    add_build_arguments(command)
    command.add_argument('--release', type=Path, help='evaluate this release, do not build')
    command.add_argument(
        '--models', default=','.join(MODELS), help='comma-separated names (default: %(default)s)'
    )
    command.add_argument(
        '--seeds', type=int, default=1, help='number of seeds to average (default: %(default)s)'
    )
    command.add_argument('--out', type=Path, required=True, help='folder of the report')
    command.set_defaults(run=evaluate)

    command = commands.add_parser(
        'benchmark', help="run cells of the paper's experiments; what is finished is kept"
    )
    add_benchmark_arguments(command)
    command.set_defaults(run=benchmark)

    command = commands.add_parser(
        'price', help='what a differentially private run would cost, without running it'
    )
    add_price_arguments(command)
    command.set_defaults(run=price)

    command = commands.add_parser(
        'audit',
        help='attack a release, check its promises, and exit with 1 if a check fails',
        epilog=AUDIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_audit_arguments(command)
    command.set_defaults(run=audit)

    command = commands.add_parser(
        'report', help='tables and a page of finished benchmark cells, beside the paper'
    )
    command.add_argument(
        'cells', type=Path, nargs='+', help='files of cells, or folders with such files (*.jsonl)'
    )
    command.add_argument('--out', type=Path, required=True, help='folder of the report')
    command.add_argument(
        '--notes',
        type=Path,
        help="Markdown to show, with headings '## scenario' or '## scenario, dataset'",
    )
    command.set_defaults(run=report)
    return parser


def audit(args: argparse.Namespace) -> int:
    r"""``cgt audit``"""
    release = read_release(args.release)
    source = _source(args)
    members = None if args.members is None else _read_mask(args.members)
    if args.out is not None:
        require_writable(args.out)
    built = None
    if members is None:  # else, what was built from was a part of the source
        root = args.root or cache_folder() / 'synthetic'
        built = find_build(release, check_source(source), root)
    result = run_audit(
        built or release,
        source,
        checks=_names(args.checks) or (),
        max_epsilon=args.max_epsilon,
        min_support=args.min_support,
        members=members,
        unit=args.unit,
        num_canaries=args.canaries,
        max_records=args.records,
        seed=args.seed,
        device=args.device,
        log=not args.quiet,
    )
    for check in result.checks:
        limit = '' if check.threshold is None else f' (threshold {check.threshold:.4g})'
        print(f'{check.verdict:>12}  {check.name}: {check.value:.4g}{limit}')
    for path in write_audit(args.out, result) if args.out is not None else []:
        print(f'Wrote {path}, which is not to be published')
    print(f'{len(result.failed)} of {len(result.checks)} checks failed')
    return 0 if result.passed else 1


def _read_mask(path: Path) -> Tensor:
    try:
        mask = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"'{path}' is not a readable .npy file: {error}") from error
    return torch.from_numpy(mask)


def benchmark(args: argparse.Namespace) -> int:
    r"""``cgt benchmark``"""
    if args.seeds < 1:
        raise ValueError(f"'--seeds' must be at least 1 (got {args.seeds})")
    config = BenchmarkConfig(k=args.k, epochs=args.epochs)
    keys = []
    for name in _names(args.scenario) or []:
        keys += find_experiment(name).keys(
            _names(args.datasets),
            args.seeds,
            levels=_names(args.levels),
            models=_names(args.models),
            variants=_names(args.variants),
        )
    require_writable(args.cells.absolute().parent)
    started = time.monotonic()
    try:
        cells = run_cells(keys, args.cells, config, args.root, args.jobs, not args.quiet)
    except KeyboardInterrupt:
        print(
            f"cgt: interrupted. The same command goes on; finished cells are in '{args.cells}'",
            file=sys.stderr,
        )
        return 130
    results = Results.from_cells(cells).only_run()
    for plan in results.tables:
        print(as_text(shown_table(plan)), end='\n\n')
    print(results.judged_by(read_beside(args.cells, cells)).text(), end='\n\n')
    print(f'{len(cells)} cells in {args.cells}, {time.monotonic() - started:.0f} seconds')
    print(f'A page of them: cgt report {args.cells} --out report')
    return 0


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(','))


def synthesize(args: argparse.Namespace) -> None:
    r"""``cgt synthesize``"""
    if args.out.exists():
        raise FileExistsError(f"'{args.out}' exists already; choose a new folder")
    require_writable(args.out.absolute().parent)
    dataset = _build(args, args.seed)
    if not _goes_on(args):
        return
    dataset.save(args.out)
    print(f'{dataset}: {len(dataset.trees):,} computation graphs')
    print('Guaranteed:', *dataset.privacy.guaranteed, sep='\n  - ')
    print('Not guaranteed:', *dataset.privacy.not_guaranteed, sep='\n  - ')
    print(f'Release written to {args.out}')


def price(args: argparse.Namespace) -> None:
    r"""``cgt price``"""
    if args.epsilon is None and args.noise is None:
        raise ValueError(
            "'--epsilon' is missing: it is the budget whose noise is sought. '--noise' asks for "
            'the cost of noise instead'
        )
    if args.noise is not None and not args.noise > 0:
        raise ValueError(f"'--noise' must be positive (got {args.noise})")
    shape = TreeShape.of(args.num_neighbors)
    if args.source is not None:
        source = check_source(load_source(args.source, args.largest_component, False))
        num_nodes = int(source.data.num_nodes or 0)
        numbers = PublicNumbers(num_nodes, source.root.numel(), source.num_classes, shape)
    elif args.num_nodes is not None and args.num_classes is not None:
        numbers = PublicNumbers(args.num_nodes, args.num_nodes, args.num_classes, shape)
    else:
        raise ValueError("Give '--source', or '--num-nodes' and '--num-classes'")
    epsilon = ANY_EPSILON if args.epsilon is None else args.epsilon
    config = PrivateConfig.of(epsilon, args.delta, _private_args(args))
    assert config is not None
    plan = PrivatePlan(numbers, config)
    if args.epsilon is None:
        plan = plan.at_noise(args.noise)
    ledger, delta = plan.ledger(args.noise), plan.budget.delta
    if args.json:
        print(json.dumps(ledger.to_dict(delta, [config.unit]), indent=2))
        return
    clusters = plan.solver().plan(numbers.num_nodes, numbers.num_classes).num_clusters
    print(
        f'{numbers.num_nodes:,} nodes, {numbers.num_roots:,} computation graphs, '
        f'{numbers.num_classes} labels; at most {clusters} feature vectors, trees by {plan.form}'
    )
    print(price_table(ledger, config.unit, delta))


def evaluate(args: argparse.Namespace) -> None:
    r"""``cgt evaluate``"""
    if args.seeds < 1:
        raise ValueError(f"'--seeds' must be at least 1 (got {args.seeds})")
    models = [name.strip() for name in args.models.split(',') if name.strip()]
    if not models or (unknown := [name for name in models if name not in ALL_MODELS]):
        raise ValueError(
            f'Unknown models {unknown if models else []}; choose from {list(ALL_MODELS)}'
        )
    require_writable(args.out)
    source = _source(args)
    started = time.monotonic()
    if args.release is not None:
        datasets = [SyntheticCGTDataset.load(args.release)] * args.seeds
    else:
        datasets = [_build(args, args.seed + run) for run in range(args.seeds)]
    if not _goes_on(args):
        return
    built = time.monotonic()
    result = evaluate_dataset(source, datasets, models, log=not args.quiet)
    seconds = {'build': built - started, 'evaluate': time.monotonic() - built}
    report = {'card': datasets[0].card, **result.to_dict()}
    if datasets[0].history is not None:
        report['fit'] = datasets[0].history
    for path in write_report(args.out, report):
        print(f'Wrote {path}')
    print(table(result))
    print(json.dumps({name: round(value, 1) for name, value in seconds.items()}), 'seconds')


def report(args: argparse.Namespace) -> None:
    r"""``cgt report``"""
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


def table(result: Evaluation) -> str:
    r"""The scores as text."""
    columns = list(result.scores)
    lines = [f'{"":8}' + ''.join(f'{name:>12}' for name in columns)]
    for i, model in enumerate(result.models):
        means = [(result.mean(column) or [])[i] for column in columns]
        lines.append(f'{model:8}' + ''.join(f'{value:12.3f}' for value in means))
    facts = {name: 'n/a' if v is None else f'{v:.4f}' for name, v in result.agreement().items()}
    lines.append('generated against original: ' + ', '.join(f'{n} {v}' for n, v in facts.items()))
    return '\n'.join(lines)


def _source(args: argparse.Namespace):  # type: ignore[no-untyped-def]
    return load_source(args.source, args.largest_component, args.random_split)


def _goes_on(args: argparse.Namespace) -> bool:
    r"""Whether this process shows the result. Processes part here; those that
    only helped to build are done.
    """
    is_first = join_world(resolve_device(args.device)).is_first
    leave_world()
    return is_first


def _build(args: argparse.Namespace, seed: int) -> SyntheticCGTDataset:
    return SyntheticCGTDataset(
        _source(args),
        k=args.k,
        num_neighbors=args.num_neighbors,
        num_samples=args.num_samples,
        num_clusters=args.num_clusters,
        l=args.l,
        task_weight=args.task_weight,
        num_scenes=args.num_scenes,
        min_support=args.min_support,
        root=args.root,
        seed=seed,
        device=args.device,
        force_reload=args.force,
        log=not args.quiet,
        resume=not args.no_resume,
        epsilon=args.epsilon,
        delta=args.delta,
        private_args=_private_args(args) if args.epsilon is not None else None,
        fit_config=FitConfig(
            epochs=args.epochs,
            batch_size=args.batch_size,
            precision=args.precision,
            accumulate=args.accumulate,
            compile=args.compile,
            checkpoint_minutes=args.checkpoint_minutes,
        ),
    )


def _private_args(args: argparse.Namespace) -> dict[str, Any]:
    return {
        'unit': args.unit,
        'max_parents': args.max_parents,
        'form': args.form,
        'accept_large_delta': args.accept_large_delta,
        'public': None if args.public is None else load_source(args.public),
    }
