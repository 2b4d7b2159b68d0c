r"""Arguments of what a release promises: k-anonymity, differential privacy, bounds of edge values.

As in :mod:`.arguments`, names and defaults are copies, so that the parser does not import PyTorch.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.cli.source_arguments import has_source, source_of

if TYPE_CHECKING:
    from torch_geometric.data import Dataset

    from torch_geometric_cgt.pipeline import Promise

UNITS = ('node', 'attributes', 'edge', 'frozen_record')
FORMS = ('auto', 'mixing', 'histograms', 'dp_sgd', 'rows')

# Defaults of DifferentialPrivacy.
MAX_PARENTS = 2
EDGE_BINS = 8


def add_protection_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments that protect the means of groups, and the words of consent."""
    add = parser.add_argument
    add(
        '--min-value-support',
        type=lambda text: text if text == 'auto' else int(text),
        help='nodes of a group that must have a value, 0 to leave nothing out (default: a third '
        'of k, 5 to 10)',
    )
    add(
        '--rounding',
        type=lambda text: text if text == 'auto' else float(text),
        help='grid of means in scales of their feature, 0 for exact means, from which it can be '
        'read who is in the source (default: --min-value-support / k, at most 0.5)',
    )
    add(
        '--no-graph-profile',
        action='store_true',
        help='leave out degrees in groups of k nodes and the homophily, which to_graph() uses',
    )
    add('--accept-no-anonymity', action='store_true', help='allow k = 1')
    add('--accept-one-group', action='store_true', help='allow a k that leaves one group')


def add_private_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of differentially private builds."""
    add = parser.add_argument
    add('--epsilon', type=float, help='budget of differential privacy, instead of k')
    add('--delta', type=float, help='failure probability (default: n to the power of -1.1)')
    add(
        '--unit',
        default='node',
        choices=UNITS,
        help='what is protected: a node with its edges, the features and the label of a node, or '
        'an edge; frozen_record protects no person (default: %(default)s)',
    )
    add(
        '--max-parents',
        type=int,
        default=MAX_PARENTS,
        help='for models of computation graphs: neighbourhoods that a node may be in (default: '
        '%(default)s)',
    )
    add(
        '--max-degree',
        type=int,
        help='for models of computation graphs and the unit node: edges of a protected node',
    )
    add(
        '--form',
        default='auto',
        choices=FORMS,
        help='model of trees (default: %(default)s)',
    )
    add('--accept-large-delta', action='store_true', help='allow a delta above 1/n')
    add('--public', help='public graph that the generator starts from (with --form dp_sgd)')


def add_edge_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of edge values in differentially private builds."""
    add = parser.add_argument
    add(
        '--edge-bounds',
        type=float,
        nargs=2,
        action='append',
        metavar=('LOW', 'HIGH'),
        help='with --epsilon: bounds of the edge weight that are known without reading the source; '
        'give it once for each column, the weight first, then those of edge_attr (default: edge '
        'values are not released)',
    )
    add(
        '--edge-bins',
        type=int,
        metavar='N',
        help=f'with --edge-bounds: released values of each column (default: {EDGE_BINS})',
    )


def promise_of(args: argparse.Namespace) -> Promise:
    r"""Returns what the release will promise, or says which arguments contradict."""
    from torch_geometric_cgt.datasets.options import make_promise

    _check_edge_arguments(args)
    options = {
        'l': args.l,
        'min_support': args.min_support,
        'num_clusters': args.num_clusters,
        'task_weight': args.task_weight,
        'private_args': None if args.epsilon is None else private_args(args) | edge_args(args),
    }
    for name in ('min_value_support', 'rounding'):
        if (value := getattr(args, name)) is not None:
            options[name] = value or None  # zero switches it off
    if args.no_graph_profile:
        options['graph_profile'] = False
    for name in ('accept_no_anonymity', 'accept_one_group'):
        if getattr(args, name):
            options[name] = True
    return make_promise(args.k, args.epsilon, args.delta, options)


def private_args(args: argparse.Namespace) -> dict[str, Any]:
    r"""Returns the arguments of a differentially private build."""
    from torch_geometric_cgt.datasets import load_source

    return {
        'unit': args.unit,
        'max_parents': args.max_parents,
        'max_degree': args.max_degree,
        'form': args.form,
        'accept_large_delta': args.accept_large_delta,
        'public': None if args.public is None else load_source(args.public),
    }


def edge_args(args: argparse.Namespace) -> dict[str, Any]:
    r"""Returns the arguments of edge values in a differentially private build. The
    source says which columns the bounds are for. Without a source, there is one
    column for each pair of bounds: the cost depends on their number only.
    """
    pairs = args.edge_bounds
    if pairs is None:
        if args.edge_bins is not None:
            raise ValueError(
                f"'--edge-bins' needs '--edge-bounds' (got {args.edge_bins} bins): without bounds, "
                f'a private build does not read edge values'
            )
        return {}
    bounds = {'edge_attr': pairs} if not has_source(args) else _bounds_of(source_of(args), pairs)
    bins = {} if args.edge_bins is None else {'edge_bins': args.edge_bins}
    return {'edge_bounds': bounds, **bins}


def _check_edge_arguments(args: argparse.Namespace) -> None:
    r"""Raises an error if arguments of edge values have no effect."""
    for name, value in (('--edge-bounds', args.edge_bounds), ('--edge-bins', args.edge_bins)):
        if value is not None and args.epsilon is None:
            raise ValueError(
                f"'{name}' is for '--epsilon' (got {value}): k-anonymous builds carry edge values "
                f'over without it'
            )


def _bounds_of(source: Dataset, pairs: list[list[float]]) -> dict[str, list[list[float]]]:
    r"""The bounds of each name of edge values of a source."""
    from torch_geometric_cgt.data import EdgeValues

    values = EdgeValues.of(source[0])
    if values is None:
        raise ValueError(
            f"'--edge-bounds' is for sources with 'edge_weight' or 'edge_attr', and this one has "
            f'neither (got {pairs})'
        )
    form = values.form
    sizes = {name: 1 if name == 'edge_weight' else max(1, form.size) for name in form.names}
    if len(pairs) != form.num_columns:
        columns = ' and then '.join(f"{size} of '{name}'" for name, size in sizes.items())
        raise ValueError(
            f"Give '--edge-bounds LOW HIGH' once for each column of edge values, which are "
            f'{columns} (got {len(pairs)} for {form.num_columns} columns: {pairs})'
        )
    bounds, first = {}, 0
    for name, size in sizes.items():
        bounds[name] = pairs[first : first + size]
        first += size
    return bounds
