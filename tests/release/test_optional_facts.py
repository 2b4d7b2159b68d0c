"""Facts of cards about edge values, degrees and the generator: those of no build are refused, and
the sentences follow.
"""

import copy
import json

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.data import EdgeValues
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import KAnonymity
from torch_geometric_cgt.release import read_release
from torch_geometric_cgt.release.optional_facts import (
    check_edge_codebook,
    check_edge_facts,
    check_generator_facts,
    check_profile_facts,
    edge_specs,
    form_of,
    profile_sentences,
    profile_specs,
    read_profile,
)
from torch_geometric_cgt.release.release import CARD, README, TENSORS
from torch_geometric_cgt.release.statements import edge_sentences
from torch_geometric_cgt.transforms.edge_codebook import EdgeGrid
from torch_geometric_cgt.utils.files import write_sealed_json

FORM = {'weight': 'float32', 'attr': 'int64', 'size': 2}
PROFILE = {'k': 10, 'k_reached': 12, 'num_groups': 8, 'homophily': 0.75}
BOUNDS = {'edge_weight': [[0.0, 1.0]], 'edge_attr': [[0.0, 1.0], [0.0, 1.0]]}


def edge_card(**edges):
    facts = {**FORM, 'num_values': 12, 'k': 10, 'k_reached': 14} | edges
    return {
        'format': 3,
        'num_trees': 5,
        'num_neighbors': [2],
        'parameters': {'k': 10},
        'source': {'num_nodes': 100},
        'privacy': {'mechanism': 'k-anonymity', 'edges': facts},
    }


def private_edge_card(**edges):
    facts = {**FORM, 'num_values': 8} | edges
    return edge_card() | {
        'parameters': {'private': {'edge_bounds': BOUNDS, 'edge_bins': 2}},
        'privacy': {'mechanism': 'differential privacy', 'edges': facts},
    }


def test_tensors_of_edge_values_by_the_card():
    for given, rows in ((edge_card(), 12), (private_edge_card(), 8)):
        check_edge_facts(given)
        specs = edge_specs(given)
        assert specs['edge_tokens'].shape == (5, 3) and specs['edge_codebook'].shape == (rows, 3)
    plain = edge_card()
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
def test_edge_values_of_no_build_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        check_edge_facts(edge_card(**edges))


def test_private_edge_values_need_bounds_and_are_those_of_the_grid():
    values = EdgeGrid(BOUNDS, 2).values(form_of(FORM))
    check_edge_codebook(private_edge_card(), values)
    check_edge_codebook(edge_card(), EdgeValues(values.table + 1, values.form))  # not on a grid
    with pytest.raises(ValueError, match='not the middles'):
        check_edge_codebook(private_edge_card(), EdgeValues(values.table + 1, values.form))
    with pytest.raises(ValueError, match='8 cells'):
        check_edge_codebook(private_edge_card(), EdgeValues(values.table[:4], values.form))
    for wrong in (
        private_edge_card() | {'parameters': {'private': {}}},
        edge_card() | {'format': 2},
    ):
        with pytest.raises(ValueError, match=r'if and only if|has no edge values'):
            check_edge_facts(wrong)


def test_sentences_on_edge_values_name_the_values_and_the_unit():
    edges = edge_card()['privacy']['edges']
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


def profile_card(profile=PROFILE, **changes):
    privacy = {'mechanism': 'k-anonymity', 'k': 10}
    if profile is not None:
        privacy['profile'] = profile
    return {
        'format': 3,
        'parameters': {'k': 10, 'graph_profile': True},
        'source': {'num_labelled': 100, 'num_edges': 400},
        'privacy': privacy,
        **changes,
    }


def test_the_tensor_of_a_profile_by_the_card():
    given = profile_card({**PROFILE, 'k_reached': 10, 'num_groups': 10})
    check_profile_facts(given)
    assert profile_specs(given)['mean_degree'].shape == (10,)
    assert profile_specs(profile_card(None)) == {}
    older = profile_card(None, parameters={'k': 10})
    check_profile_facts(older)
    few = profile_card(None, source={'num_labelled': 9, 'num_edges': 400})
    check_profile_facts(few)


@pytest.mark.parametrize(
    'given, message',
    [
        (profile_card(), 'contradicts itself'),
        (
            profile_card({**PROFILE, 'k_reached': 10, 'num_groups': 10, 'k': 9}),
            'contradicts itself',
        ),
        (profile_card({**PROFILE, 'num_groups': 0}), 'must be an integer'),
        (profile_card({**PROFILE, 'homophily': 1.5}), 'must be a number'),
        (profile_card({**PROFILE, 'sizes': []}), 'must hold'),
        (profile_card(None), 'is missing'),
        (profile_card(parameters={'k': 10}), 'has no profile'),
        (profile_card(parameters={'k': 10, 'graph_profile': 1}), 'must be true or false'),
        (profile_card(format=2), 'has no profile'),
        (
            profile_card() | {'privacy': {'mechanism': 'differential privacy', 'profile': PROFILE}},
            'has no',
        ),
    ],
)
def test_a_profile_of_no_build_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_profile_facts(given)


@pytest.mark.parametrize('means', [[2.0, 1.0], [-1.0, 1.0], [1.0, 401.0], [float('nan'), 1.0]])
def test_degrees_of_no_graph_are_refused(means):
    with pytest.raises(ValueError, match='must ascend'):
        read_profile(profile_card(), {'mean_degree': torch.tensor(means, dtype=torch.float64)})
    assert read_profile(profile_card(None), {}) is None


def test_sentences_on_degrees_name_the_size_of_groups_and_what_is_not_covered():
    (promised,), (limit,) = profile_sentences({'profile': PROFILE})
    assert 'at least 10 nodes (the smallest has 12)' in promised and '0.75' in promised
    assert 'neighbours' in limit
    (without,), _ = profile_sentences({'profile': {**PROFILE, 'homophily': None}})
    assert 'label' not in without
    assert profile_sentences({}) == ([], [])


@pytest.fixture(scope='module')
def datasets(tmp_path_factory):
    root = tmp_path_factory.mktemp('root')
    promise = KAnonymity(10, task_weight=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('warnings.warn', lambda *_, **__: None)
        return {
            name: SyntheticCGTDataset(
                random_graph(num_nodes=200, num_edges=500),
                privacy=promise,
                num_neighbors=[3, 2],
                root=root,
                log=False,
                generator={'model': name},
            )
            for name in ('NGram', 'Resampled', 'DegreeCorrectedSBM')
        }


def test_a_release_is_loaded_with_its_sentences(datasets, tmp_path):
    datasets['NGram'].save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release', log=False)
    assert loaded.privacy == datasets['NGram'].privacy and loaded.privacy.generator == 'NGram'
    assert loaded.privacy.copies_trees is None
    assert loaded.privacy.guaranteed[0].startswith('Every feature vector')
    assert 'come from the generator NGram' in loaded.privacy.not_guaranteed[0]
    assert 'not copied from it' in (tmp_path / 'release' / README).read_text()


def test_copies_are_stated_loudly(datasets, tmp_path):
    datasets['Resampled'].save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release', log=False)
    assert loaded.privacy.not_guaranteed[0].startswith('NEIGHBOURHOODS ARE COPIES')
    assert loaded.privacy.summary.startswith('neighbourhoods are copies of the source')
    text = (tmp_path / 'release' / README).read_text()
    assert 'each of them is a copy of one in it' in text and 'not copied' not in text


def test_exact_degrees_are_stated(datasets):
    limits = datasets['DegreeCorrectedSBM'].privacy.not_guaranteed
    assert 'the exact degree and the exact label of every source node' in limits[0]


@pytest.mark.parametrize(
    'change, message',
    [
        (lambda c: c['privacy'].pop('copies_trees'), 'contradicts itself'),
        (lambda c: c['privacy'].pop('generator'), 'contradicts itself'),
        (lambda c: c['privacy'].update(generator='NGram'), 'contradicts itself'),
        (lambda c: c['parameters'].update(generator={}), 'unknown generator'),
        (lambda c: c['parameters']['generator'].update(model='Other'), 'unknown generator'),
        (lambda c: c['parameters']['generator'].update(model=['x']), 'unknown generator'),
        (lambda c: c.update(format=2), 'has no other generators'),
    ],
)
def test_altered_facts_of_a_generator_are_refused(datasets, change, message):
    card = copy.deepcopy(datasets['Resampled'].card)
    check_generator_facts(card)
    change(card)
    with pytest.raises(ValueError, match=message):
        check_generator_facts(card)


def test_a_release_that_hides_its_copies_is_refused(datasets, tmp_path):
    folder = tmp_path / 'release'
    datasets['Resampled'].save(folder)
    card = json.loads((folder / CARD).read_text())
    del card['checksum'], card['files']
    del card['privacy']['copies_trees'], card['privacy']['generator']
    card['parameters']['generator'] = {}
    card['privacy']['not_guaranteed'] = card['privacy']['not_guaranteed'][1:]
    write_sealed_json(folder / CARD, card, [TENSORS, README])
    assert read_release(folder).privacy.generator is None  # consistent, but made up
    card['parameters']['generator'] = {'model': 'Resampled'}
    write_sealed_json(folder / CARD, card, [TENSORS, README])
    with pytest.raises(CorruptFileError, match='contradicts itself'):
        read_release(folder)


def test_a_release_is_audited(datasets):
    source = random_graph(num_nodes=200, num_edges=500)
    checks = ('groups', 'copies', 'closest')
    found = {n: run_audit(d, source, checks, log=False) for n, d in datasets.items()}
    groups = [check for check in found['NGram'].checks if 'group' in check.name.lower()]
    assert groups and all(check.verdict == 'nothing found' for check in groups)
    # Copies of rare neighbourhoods are what resampling releases.
    rare = {n: audit.details['copies'] for n, audit in found.items()}
    assert str(rare['Resampled']) != str(rare['NGram'])
    copies = {n: next(c for c in a.checks if 'cop' in c.name.lower()) for n, a in found.items()}
    assert copies['Resampled'].value > 2 * copies['NGram'].value
