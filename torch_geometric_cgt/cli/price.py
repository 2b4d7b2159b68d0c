r"""``cgt price``: prices a differentially private build without running it."""

from __future__ import annotations

import argparse
import json

from torch_geometric_cgt.cli.promise_arguments import (
    add_edge_arguments,
    add_private_arguments,
    edge_args,
    private_args,
)
from torch_geometric_cgt.cli.source_arguments import add_source_arguments, has_source, source_of

HELP = 'what a differentially private run would cost, without running it'

ANY_EPSILON = 10.0  # where a search for the cost of noise starts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add_source_arguments(parser)
    add('--num-nodes', type=int, help='instead of a source')
    add('--num-classes', type=int, help='instead of a source')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add_private_arguments(parser)
    add_edge_arguments(parser)
    add(
        '--noise',
        type=float,
        help='what noise of this many sensitivities costs; an epsilon then sets the sizes alone',
    )
    add('--json', action='store_true', help='print the ledger as JSON')


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    if args.epsilon is None and args.noise is None:
        raise ValueError(
            "'--epsilon' is missing: it is the budget whose noise is sought. '--noise' asks for "
            'the cost of noise instead'
        )
    if args.noise is not None and not args.noise > 0:
        raise ValueError(f"'--noise' must be positive (got {args.noise})")

    from torch_geometric_cgt.data import TreeShape
    from torch_geometric_cgt.pipeline import DifferentialPrivacy, check_source
    from torch_geometric_cgt.pipeline.plan import PrivatePlan, PublicNumbers
    from torch_geometric_cgt.report.text_tables import price_table

    shape = TreeShape.of(args.num_neighbors)
    if has_source(args):
        source = check_source(source_of(args))
        num_nodes = int(source.data.num_nodes or 0)
        numbers = PublicNumbers(num_nodes, source.root.numel(), source.num_classes, shape)
    elif args.num_nodes is not None and args.num_classes is not None:
        numbers = PublicNumbers(args.num_nodes, args.num_nodes, args.num_classes, shape)
    else:
        raise ValueError("Give '--source', or '--num-nodes' and '--num-classes'")
    epsilon = ANY_EPSILON if args.epsilon is None else args.epsilon
    config = DifferentialPrivacy(epsilon, args.delta, **private_args(args), **edge_args(args))
    plan = PrivatePlan(numbers, config)
    if args.epsilon is None:
        plan = plan.at_noise(args.noise)
    ledger, delta = plan.ledger(args.noise), plan.budget.delta
    if args.json:
        print(json.dumps(ledger.to_dict(delta, [config.unit]), indent=2))
        return
    print(
        f'{numbers.num_nodes:,} nodes, {numbers.num_roots:,} computation graphs, '
        f'{numbers.num_classes} labels; at most {plan.most_clusters} feature vectors, '
        f'trees by {plan.form}'
    )
    print(price_table(ledger, config.unit, delta))
