"""What a command line promises."""

import argparse

import pytest

from tests.helpers.edge_values import SIZE, valued_graph
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DifferentialPrivacy, KAnonymity
from torch_geometric_cgt.cli.arguments import add_build_arguments
from torch_geometric_cgt.cli.promise_arguments import promise_of


@pytest.mark.parametrize(
    'arguments, promise',
    [
        ([], KAnonymity()),
        (['--min-value-support', '5'], KAnonymity(min_value_support=5)),
        (['--rounding', '0.2'], KAnonymity(rounding=0.2)),
        (
            ['--min-value-support', '0', '--rounding', '0'],
            KAnonymity(min_value_support=None, rounding=None),
        ),
        (['--min-value-support', 'auto', '--rounding', 'auto'], KAnonymity()),
        (['--k', '1', '--accept-no-anonymity'], KAnonymity(1, accept_no_anonymity=True)),
        (['--k', '900', '--accept-one-group'], KAnonymity(900, accept_one_group=True)),
    ],
)
def test_the_protection_of_means(arguments, promise):
    parser = argparse.ArgumentParser()
    add_build_arguments(parser)
    assert promise_of(parser.parse_args(arguments)) == promise


def promise(source, *words):
    """The promise of a command line for a source that is already loaded."""
    parser = argparse.ArgumentParser()
    add_build_arguments(parser)
    args = parser.parse_args(list(map(str, words)))
    args.loaded_source = [source]
    return promise_of(args)


def test_bounds_of_edge_values_are_those_of_their_columns():
    pairs = ['--edge-bounds', 0, 1, '--edge-bounds', -3, 3, '--edge-bounds', 0, 10]
    source = valued_graph()
    assert promise(source, '--epsilon', 4, *pairs, '--edge-bins', 2) == DifferentialPrivacy(
        4, edge_bounds={'edge_weight': (0, 1), 'edge_attr': [(-3, 3), (0, 10)]}, edge_bins=2
    )
    source.edge_attr = None
    assert promise(source, '--epsilon', 4, *pairs[:3]) == DifferentialPrivacy(
        4, edge_bounds={'edge_weight': (0, 1)}
    )
    source.edge_attr, source.edge_weight = source.edge_weight, None  # a vector
    assert promise(source, '--epsilon', 4, *pairs[3:6]) == DifferentialPrivacy(
        4, edge_bounds={'edge_attr': (-3, 3)}
    )
    assert promise(source, '--epsilon', 4).edge_bounds is None


@pytest.mark.parametrize(
    'words, message',
    [
        (['--edge-bounds', 0, 1], "'--edge-bounds' is for '--epsilon'"),
        (['--edge-bins', 4], "'--edge-bins' is for '--epsilon'"),
        (['--epsilon', 4, '--edge-bins', 4], r"needs '--edge-bounds' \(got 4 bins\)"),
        (
            ['--epsilon', 4, '--edge-bounds', 0, 1],
            rf"1 of 'edge_weight' and then {SIZE} of 'edge_attr' \(got 1 for {1 + SIZE} columns",
        ),
        (['--epsilon', 4, *['--edge-bounds', 1, 0] * (1 + SIZE)], 'the lower one first'),
        (
            ['--epsilon', 4, *['--edge-bounds', 0, 1] * (1 + SIZE), '--edge-bins', 7],
            "'edge_bins' = 7 for 3 columns",
        ),
    ],
)
def test_wrong_bounds_of_edge_values(words, message):
    with pytest.raises(ValueError, match=message):
        promise(valued_graph(), *words)


def test_bounds_need_edge_values():
    with pytest.raises(ValueError, match='this one has neither'):
        promise(random_graph(20, 40), '--epsilon', 4, '--edge-bounds', 0, 1)
