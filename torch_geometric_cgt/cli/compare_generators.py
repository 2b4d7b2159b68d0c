r"""``cgt benchmark --generators``: compares generators on named graphs or on one's own."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.cli.arguments import split_names
from torch_geometric_cgt.cli.source_arguments import add_source_arguments, has_source, source_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from torch_geometric_cgt.benchmark.generator_comparison import Comparison
    from torch_geometric_cgt.benchmark.generator_runs import ComparedGenerator, ComparedGraph

ALL = 'all'
SECONDS, MEMORY = 1200.0, 8.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the comparison."""
    add_source_arguments(parser)
    group = parser.add_argument_group(
        'generators', 'with --generators: --datasets, or one graph of your own'
    )
    add = group.add_argument
    add(
        '--generators',
        metavar='NAMES',
        help="compare these, comma-separated, e.g. CGT,NGram,NGram+tilt; 'all' for all of them",
    )
    add('--zoo', action='store_true', help='score by the zoo of 18 GNNs (default: four GNNs)')
    _add_limits(group)
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add(
        '--option',
        action='append',
        default=[],
        metavar='NAME.KEY=VALUE',
        help='option of a generator, e.g. NGram.order=1; may be given several times',
    )
    add(
        '--no-attack',
        action='store_true',
        help='no membership attack, which needs a second build of half of the roots',
    )
    add('--max-records', type=int, default=1000, help='roots to attack (default: %(default)s)')
    add(
        '--scaling',
        action='store_true',
        help='only time and memory of each build, against the size of the graph',
    )
    add('--retry', action='store_true', help='run again what did not finish')
    add(
        '--out',
        type=Path,
        default=Path('generators'),
        help='folder of the page (default: %(default)s)',
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    shown = 'limit of a build, and of an attack (default: %(default)s)'
    group.add_argument('--seconds', type=float, default=SECONDS, help=shown)
    group.add_argument('--memory', type=float, default=MEMORY, metavar='GIB', help=shown)
    group.add_argument(
        '--clock',
        choices=('wall', 'processor'),
        default='wall',
        help='what --seconds limits; processor time does not depend on other work '
        '(default: %(default)s)',
    )


def run(args: argparse.Namespace) -> int:
    r"""Runs the comparison."""
    from torch_geometric_cgt.benchmark.generator_verdicts import compare_results
    from torch_geometric_cgt.report.generator_page import write_comparison
    from torch_geometric_cgt.report.generator_scaling import scaling_table, write_scaling
    from torch_geometric_cgt.report.generator_tables import generator_table, overall_table

    comparison, started = _comparison(args), time.monotonic()
    try:
        results = comparison.run()
    except KeyboardInterrupt:
        print(
            f"cgt: interrupted. The same command resumes; finished parts are in '{args.cells}'",
            file=sys.stderr,
        )
        return 130
    if args.scaling:
        tables, paths = [scaling_table(results)], write_scaling(args.out, results)
    else:
        found = {**compare_results(results), 'settings': _settings(args, comparison.config.models)}
        tables = [generator_table(found), overall_table(found)]
        paths = write_comparison(args.out, found)
    for table in tables:
        print('', table.title, table.to_text(), *table.notes, sep='\n')
    for path in paths:
        print(f'Wrote {path}')
    print(f'{len(results)} parts in {args.cells}, {time.monotonic() - started:.0f} seconds')
    return 0


def _comparison(args: argparse.Namespace) -> Comparison:
    r"""The comparison of checked arguments. Nothing is built yet."""
    from torch_geometric_cgt.audit.strongest_attack import attack_generator
    from torch_geometric_cgt.benchmark.generator_comparison import (
        QUICK,
        Comparison,
        ComparisonConfig,
    )
    from torch_geometric_cgt.benchmark.generator_runs import BuildSettings
    from torch_geometric_cgt.benchmark.zoo import ZOO
    from torch_geometric_cgt.benchmark.zoo_models import MAKERS
    from torch_geometric_cgt.datasets.sources import build_folder
    from torch_geometric_cgt.utils.files import require_writable

    models = split_names(args.models) or (ZOO if args.zoo else QUICK)
    if unknown := [name for name in models if name not in MAKERS]:
        raise ValueError(f'Unknown models {unknown}; choose from {list(MAKERS)}')
    generators, graphs = _generators(args), _graphs(args)
    config = ComparisonConfig(
        BuildSettings(args.k, tuple(args.num_neighbors)),
        tuple(models),
        args.seconds,
        args.memory,
        args.seeds,
        args.max_records,
        only_builds=args.scaling,
        clock=args.clock,
    )
    for folder in (args.cells.absolute().parent, args.out):
        require_writable(folder)
    return Comparison(
        graphs,
        generators,
        args.cells,
        build_folder(args.root),
        config,
        None if args.no_attack else attack_generator,
        args.retry,
        None if args.quiet else _print,
    )


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _settings(args: argparse.Namespace, models: tuple[str, ...]) -> dict[str, Any]:
    names = ('k', 'num_neighbors', 'seeds', 'seconds', 'memory', 'epochs', 'option')
    return {**{name: getattr(args, name) for name in names}, 'models': list(models)}


def _generators(args: argparse.Namespace) -> list[ComparedGenerator]:
    from torch_geometric_cgt.benchmark.generator_runs import ComparedGenerator, default_generators

    names = list(split_names(args.generators) or ())
    if names == [ALL]:
        names = default_generators()
    options: dict[str, dict[str, Any]] = {}
    for text in args.option:
        name, key, value = _option(text)
        options.setdefault(name.lower(), {})[key] = value
    if unused := sorted(set(options) - {name.lower() for name in names}):
        raise ValueError(f"'--option' names generators that are not compared: {unused}")
    found = [ComparedGenerator.of(n, options.get(n.lower()), args.epochs) for n in names]
    if len({g.name for g in found}) < len(found):
        raise ValueError(f"'--generators' names one of them twice (got {names})")
    return found


def _option(text: str) -> tuple[str, str, Any]:
    r"""Reads NAME.KEY=VALUE; a value is JSON, or else text."""
    path, equals, value = text.partition('=')
    name, dot, key = path.rpartition('.')
    if not equals or not dot or not name or not key:
        raise ValueError(f"'--option' must be NAME.KEY=VALUE (got '{text}')")
    try:
        return name, key, json.loads(value)
    except ValueError:
        return name, key, value


def _graphs(args: argparse.Namespace) -> list[ComparedGraph]:
    from functools import partial

    from torch_geometric_cgt.benchmark.generator_runs import ComparedGraph, named_graph
    from torch_geometric_cgt.datasets.sources import SOURCES, source_name

    if has_source(args) == (args.datasets is not None):
        raise ValueError(
            "Give '--datasets', or one graph of your own with '--source' or '--nodes' and '--edges'"
        )
    if args.datasets is None:
        dataset = source_of(args)
        name = args.name or str(getattr(dataset, 'name', None) or type(dataset).__name__)
        return [ComparedGraph(name, partial(_with_split, dataset[0]))]
    found = []
    for text in split_names(args.datasets) or ():
        name = source_name(text)
        if name is None:
            raise ValueError(f"Unknown dataset '{text}'; choose from {list(SOURCES)}")
        found.append(ComparedGraph(name, partial(named_graph, name)))
    return found


def _with_split(data: Data, seed: int) -> Data:
    r"""The graph with its own split, or with a random one of the seed."""
    from torch_geometric_cgt.data import masks_of, random_split, split_of

    if split_of(data) is None:
        data = data.clone()
        data.update(masks_of(random_split(data.y >= 0, seed)))
    return data
