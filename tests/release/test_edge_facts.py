"""Facts of cards about edge values: those of no build are refused, and the sentences follow."""

import pytest

from torch_geometric_cgt.data import EdgeValues
from torch_geometric_cgt.release.edge_facts import (
    check_edge_codebook,
    check_edge_facts,
    edge_specs,
    form_of,
)
from torch_geometric_cgt.release.statements import edge_sentences
from torch_geometric_cgt.transforms.edge_codebook import EdgeGrid

FORM = {'weight': 'float32', 'attr': 'int64', 'size': 2}
BOUNDS = {'edge_weight': [[0.0, 1.0]], 'edge_attr': [[0.0, 1.0], [0.0, 1.0]]}


def card(**edges):
    facts = {**FORM, 'num_values': 12, 'k': 10, 'k_reached': 14} | edges
    return {
        'format': 3,
        'num_trees': 5,
        'num_neighbors': [2],
        'parameters': {'k': 10},
        'source': {'num_nodes': 100},
        'privacy': {'mechanism': 'k-anonymity', 'edges': facts},
    }


def private_card(**edges):
    facts = {**FORM, 'num_values': 8} | edges
    return card() | {
        'parameters': {'private': {'edge_bounds': BOUNDS, 'edge_bins': 2}},
        'privacy': {'mechanism': 'differential privacy', 'edges': facts},
    }


def test_files_by_the_card():
    for given, rows in ((card(), 12), (private_card(), 8)):
        check_edge_facts(given)
        specs = edge_specs(given)
        assert specs['edge_tokens'].shape == (5, 3) and specs['edge_codebook'].shape == (rows, 3)
    plain = card()
    del plain['privacy']['edges']
    check_edge_facts(plain)
    assert edge_specs(plain) == {}


@pytest.mark.parametrize(
    'edges, message',
    [
        ({'k': 9}, '10 was asked for'),
        ({'k_reached': 9}, 'k = 10 is promised'),
        ({'k_reached': 101}, '101 of 100 nodes'),
        ({'k_reached': True}, 'must be an integer'),
        ({'num_values': 0}, 'must be an integer'),
        ({'size': -1}, 'must be an integer'),
        ({'attr': None}, 'no edge attribute with 2 columns'),
        ({'weight': 'object'}, 'real numbers'),
        ({'certified': 1}, 'must hold'),
    ],
)
def test_facts_of_no_build_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        check_edge_facts(card(**edges))


def test_private_edge_values_need_bounds_and_are_those_of_the_grid():
    values = EdgeGrid(BOUNDS, 2).values(form_of(FORM))
    check_edge_codebook(private_card(), values)
    check_edge_codebook(card(), EdgeValues(values.table + 1, values.form))  # not on a grid
    with pytest.raises(ValueError, match='not the middles'):
        check_edge_codebook(private_card(), EdgeValues(values.table + 1, values.form))
    with pytest.raises(ValueError, match='8 cells'):
        check_edge_codebook(private_card(), EdgeValues(values.table[:4], values.form))
    for wrong in (private_card() | {'parameters': {'private': {}}}, card() | {'format': 2}):
        with pytest.raises(ValueError, match=r'if and only if|has no edge values'):
            check_edge_facts(wrong)


def test_sentences_name_the_values_and_the_unit():
    edges = card()['privacy']['edges']
    facts = {'edges': edges, 'epsilon': None}
    promised, limits = edge_sentences(facts)
    assert 'At least 10 source nodes' in promised[0] and 'at least 9 other nodes' in promised[0]
    assert 'edge_weight and edge_attr' in limits[0]
    promised, _ = edge_sentences({**facts, 'edges': {**edges, 'k': 1}})
    assert 'Nothing is guaranteed' in promised[0]
    noisy = {'epsilon': 1.0, 'protects': 'attributes', 'seeded_noise': False}
    promised, limits = edge_sentences({'edges': {**edges, 'attr': None}, **noisy})
    assert 'values of edge_weight are the middles of 12 cells' in promised[0]
    assert any('does not cover edge_weight' in limit for limit in limits)
    assert edge_sentences({'edges': edges, **noisy, 'seeded_noise': True})[0] == []
