"""The parser's copies of names and defaults agree with the modules that own them."""

import argparse

import pytest

from tests.helpers.edge_values import SIZE, valued_graph
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DifferentialPrivacy, FitConfig
from torch_geometric_cgt.audit import CHECKS, neighbours
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.cli import arguments, source_arguments
from torch_geometric_cgt.cli.arguments import add_build_arguments, promise_of
from torch_geometric_cgt.datasets import SOURCES, column_encoding
from torch_geometric_cgt.pipeline.promise import FORMS
from torch_geometric_cgt.privacy import UNITS
from torch_geometric_cgt.release import EXPORT_FORMATS
from torch_geometric_cgt.training.config import PRECISIONS
from torch_geometric_cgt.utils import limits

OWNED = {
    'SOURCES': tuple(SOURCES),
    'MODELS': MODELS,
    'EXPERIMENTS': {e.name: e.scenario for e in EXPERIMENTS.values()},
    'CHECKS': CHECKS,
    'AUDIT_UNITS': neighbours.SPLIT_UNITS,
    'UNITS': UNITS,
    'FORMS': FORMS,
    'PRECISIONS': PRECISIONS,
    'MISSING': column_encoding.MISSING_RULES,
    'MAX_VALUES': column_encoding.MAX_VALUES,
    'EXPORT_FORMATS': EXPORT_FORMATS,
    'BATCH_SIZE': FitConfig.batch_size,
    'PRECISION': FitConfig.precision,
    'ACCUMULATE': FitConfig.accumulate,
    'CHECKPOINT_MINUTES': FitConfig.checkpoint_minutes,
    'MAX_RELEASE_BYTES': limits.MAX_RELEASE_BYTES,
    'MAX_PARENTS': DifferentialPrivacy.max_parents,
    'EDGE_BINS': DifferentialPrivacy.edge_bins,
}
COPIES = [
    (module, name)
    for module in (arguments, source_arguments)
    for name in vars(module)
    if name.isupper() and name != 'TYPE_CHECKING'
]


@pytest.mark.parametrize('module, name', COPIES, ids=[name for _, name in COPIES])
def test_a_copy_agrees_with_its_owner(module, name):
    assert repr(getattr(module, name)) == repr(OWNED[name])  # in the same order


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
