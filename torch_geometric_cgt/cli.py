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

from torch_geometric_cgt.benchmark import ALL_MODELS, MODELS, Evaluation, evaluate_dataset
from torch_geometric_cgt.benchmark.audit_page import write_audit
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, find_experiment
from torch_geometric_cgt.benchmark.graphs import BenchmarkConfig
from torch_geometric_cgt.benchmark.method_tables import shown_table
from torch_geometric_cgt.benchmark.report import write_report
from torch_geometric_cgt.benchmark.results import Results, read_beside, read_results, write_results
from torch_geometric_cgt.benchmark.runner import run_cells
from torch_geometric_cgt.benchmark.table_files import as_text
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.files import require_writable
from torch_geometric_cgt.datasets import SOURCES, PrivateConfig, SyntheticCGTDataset, load_source
from torch_geometric_cgt.datasets.private_config import CHOICES
from torch_geometric_cgt.datasets.private_plan import PrivatePlan, PublicNumbers
from torch_geometric_cgt.datasets.release import read_release
from torch_geometric_cgt.datasets.source import check_source
from torch_geometric_cgt.datasets.sources import cache_folder
from torch_geometric_cgt.errors import CGTError
from torch_geometric_cgt.privacy import UNITS
from torch_geometric_cgt.privacy.audit import CHECKS, find_build, run_audit
from torch_geometric_cgt.privacy.audit.halves import UNITS as AUDITED
from torch_geometric_cgt.privacy.price import price_table
from torch_geometric_cgt.training import FitConfig, join_world, leave_world, resolve_device
from torch_geometric_cgt.training.config import PRECISIONS
from torch_geometric_cgt.version import __version__

AUDIT_CODES = """exit codes:
  0    no check failed
  1    a check failed: an attack shows more than is claimed, the lower bound on
       epsilon exceeds the claim, or a cluster is below k
  2    there was nothing to audit: wrong arguments, a damaged release, an edited
       card, or a source that the release was not made from
  130  interrupted
"""
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
    _add_build_arguments(command)
    command.add_argument('--out', type=Path, required=True, help='folder of the release (new)')
    command.set_defaults(run=synthesize)

    command = commands.add_parser(
        'evaluate', help='compare GNNs on the original, the quantized and the generated graph'
    )
    _add_build_arguments(command)
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
    _add_benchmark_arguments(command)
    command.set_defaults(run=benchmark)

    command = commands.add_parser(
        'price', help='what a differentially private run would cost, without running it'
    )
    _add_price_arguments(command)
    command.set_defaults(run=price)

    command = commands.add_parser(
        'audit',
        help='attack a release, check its promises, and exit with 1 if a check fails',
        epilog=AUDIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_audit_arguments(command)
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


def _add_build_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('--source', default='Digits', help=f'one of {", ".join(SOURCES)} (default: %(default)s)')
    add('--k', type=int, help='minimum nodes per feature vector (default: 30)')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add('--num-samples', type=int, help="computation graphs (default: the source's nodes)")
    add('--num-clusters', type=int, help='distinct feature vectors (default: as many as k allows)')
    add('--l', type=int, help='minimum distinct labels per feature vector')
    add(
        '--task-weight',
        type=lambda text: text if text == 'auto' else float(text),
        default='auto',
        help="weight of class probabilities when clusters are sought, 0 for none (default: 'auto')",
    )
    add(
        '--num-scenes',
        type=int,
        help="classes of alike surroundings, 0 for the paper's model (default: by the labels)",
    )
    add('--min-support', type=int, help='source nodes that must show each path (default: no rule)')
    _add_private_arguments(parser)
    add('--epochs', type=int, help='(default: 1 to 25, fewer for larger graphs)')
    add(
        '--batch-size',
        type=int,
        default=FitConfig.batch_size,
        help='computation graphs per step, over all processes (default: %(default)s)',
    )
    add('--precision', default=FitConfig.precision, choices=PRECISIONS, help='(default: float32)')
    add(
        '--accumulate',
        type=int,
        default=FitConfig.accumulate,
        help='parts in which a process works through its share of a batch (default: %(default)s)',
    )
    add('--compile', action='store_true', help='compile the model')
    add(
        '--checkpoint-minutes',
        type=float,
        default=FitConfig.checkpoint_minutes,
        help='minutes between checkpoints (default: %(default)s)',
    )
    add('--no-resume', action='store_true', help='ignore the checkpoints of a killed run')
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--largest-component', action='store_true', help='drop all other components')
    add('--random-split', action='store_true', help='split 50/10/40 instead of the own masks')
    add('--force', action='store_true', help='fit again even if a fitted model is kept')
    add('--quiet', action='store_true', help='no progress bars')


def _add_private_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('--epsilon', type=float, help='budget of differential privacy, instead of k')
    add('--delta', type=float, help='failure probability (default: n to the power of -1.1)')
    add('--unit', default='record', choices=UNITS, help='what is protected (default: %(default)s)')
    add(
        '--max-parents',
        type=int,
        default=PrivateConfig.max_parents,
        help='for edges and nodes: neighbourhoods that a node may be in (default: %(default)s)',
    )
    add('--form', default='auto', choices=CHOICES, help='model of trees (default: %(default)s)')
    add('--accept-large-delta', action='store_true', help='a delta above 1/n is meant')
    add('--public', help='public graph that the generator starts from (with --form dp_sgd)')


def _add_price_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('--source', help=f'whose sizes to take, one of {", ".join(SOURCES)}')
    add('--num-nodes', type=int, help='instead of a source')
    add('--num-classes', type=int, help='instead of a source')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add('--largest-component', action='store_true', help='of the source')
    _add_private_arguments(parser)
    add(
        '--noise',
        type=float,
        help='what noise of this many sensitivities costs; an epsilon then sets the sizes alone',
    )
    add('--json', action='store_true', help='print the ledger as JSON')


def _add_benchmark_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    names = ', '.join(
        f'{e.scenario} ({e.name})' if e.scenario else e.name for e in EXPERIMENTS.values()
    )
    add('--scenario', required=True, help=f'comma-separated, of {names}')
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


def _add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('release', type=Path, help='folder of the release')
    add('--source', required=True, help=f'what it was made from, one of {", ".join(SOURCES)}')
    add('--largest-component', action='store_true', help='drop all other components')
    add('--random-split', action='store_true', help='split 50/10/40 instead of the own masks')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--checks', default=','.join(CHECKS), help='comma-separated (default: %(default)s)')
    add('--max-epsilon', type=float, help="held against attacks (default: the card's claim, or 1)")
    add('--min-support', type=int, help="roots that must show every path (default: the card's)")
    add(
        '--members',
        type=Path,
        help='.npy mask of the nodes the release was made from (default: build from a random half)',
    )
    add('--unit', choices=AUDITED, help='of membership (default: by the claim of the card)')
    add('--canaries', type=int, default=100, help='made-up records (default: %(default)s)')
    add('--records', type=int, default=2000, help='members to attack (default: %(default)s)')
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--out', type=Path, help='folder of the report (default: show it only)')
    add('--quiet', action='store_true', help='no progress bars')


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
