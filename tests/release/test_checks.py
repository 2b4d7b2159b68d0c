"""Cards against themselves: impossible groups are refused, even with sentences that fit."""

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.malicious import card_of, seal
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.release import read_release, save_release
from torch_geometric_cgt.release.card import FIELDS, Card
from torch_geometric_cgt.release.checks import check_card, check_groups, tensor_specs
from torch_geometric_cgt.utils.limits import MAX_SLOTS

RECORDED = Path(__file__).parents[1] / 'recorded' / 'format_1'
VALID = {
    name: card_of(RECORDED / name)
    for name in ('k_anonymous', 'supported', 'private_clusters', 'histograms', 'dp_sgd', 'nodes')
}


def with_sentences(card):
    """The sentences that follow from the facts, as a careful forger writes them."""
    privacy = card['privacy']
    facts = {name: privacy[name] for name in FIELDS[privacy['mechanism']]}
    fresh = Card(
        privacy['mechanism'],
        min_support=privacy.get('min_support'),
        format=card['format'],
        **facts,
    )
    card['privacy'] = fresh.to_dict()
    return card


def altered(base='k_anonymous', **changes):
    card = copy.deepcopy(VALID[base])
    for place, value in changes.items():
        part, name = place.split('__') if '__' in place else (None, place)
        (card[part] if part else card)[name] = value
    return with_sentences(card)


@pytest.mark.parametrize('name', VALID)
def test_cards_of_builds_are_accepted(name):
    card = copy.deepcopy(VALID[name])
    check_card(card)
    if card['privacy']['mechanism'] != 'differential privacy':
        check_groups(card)
    assert tensor_specs(card)['tokens'].shape == (card['num_trees'], 10)
    assert card == VALID[name]


IMPOSSIBLE = {
    'too many groups': ({'privacy__k_reached': 11}, 'need more than 120 nodes'),
    'source too small': ({'source__num_nodes': 119, 'source__num_labelled': 119}, 'need more than'),
    'group below k': ({'privacy__k_reached': 9}, 'smallest group has 9 nodes, but k = 10'),
    'other k': ({'privacy__k': 8}, 'k = 8 is promised, but 10 was asked for'),
    'homogeneous': ({'privacy__homogeneous': 13}, '13 of 12 groups'),
    'diverse and homogeneous': ({'privacy__l_reached': 2}, 'no group can have one label only'),
    'more labels than there are': (
        {'privacy__l_reached': 4, 'privacy__homogeneous': 0},
        'cannot have 4 of 3 labels',
    ),
    'fewer labels than asked for': ({'parameters__l': 2}, 'but 2 were asked for'),
    'support': ({'privacy__min_support': 3}, "'min_support' is not None"),
    'cheap clusters': (
        {'privacy__mechanism': 'k-anonymity', 'parameters__cluster_epsilon': 1.0},
        'another mechanism',
    ),
    'more vectors': ({'num_tokens': 13}, '13 feature vectors are not one of each group'),
    'more labels than nodes': ({'source__num_labelled': 121}, '121 of 120 nodes'),
    'no edges': ({'source__num_edges': None}, 'number of edges'),
    'other trees': ({'num_neighbors': [9]}, 'shape of the trees'),
    'more trees': ({'num_trees': 121}, '121 trees are not as many'),
    'other labels': ({'num_classes': 4}, "'num_classes' is 4, but 3"),
    'other features': ({'num_features': 9}, "'num_features' is 9, but 8"),
}


@pytest.mark.parametrize('name', IMPOSSIBLE)
def test_impossible_facts_are_refused_although_their_sentences_fit(name):
    changes, reason = IMPOSSIBLE[name]
    card = altered(**changes)
    check_card(card)
    with pytest.raises(ValueError, match=reason):
        check_groups(card)


def test_a_private_codebook_within_its_budget_is_accepted():
    with pytest.raises(ValueError, match=r'cost more than 40\.0'):
        check_groups(altered('private_clusters', privacy__cluster_epsilon=41.0))
    with pytest.raises(ValueError, match='k = 5 is promised'):
        check_groups(altered('private_clusters', privacy__k=5))
    check_groups(altered('private_clusters', privacy__cluster_epsilon=30.0))
    assert altered('private_clusters', privacy__k_reached=0)['privacy']['k_reached'] == 0
    check_groups(altered('private_clusters', privacy__k_reached=0))  # promised is no size


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40), st.integers(1, 200))
def test_groups_are_accepted_where_they_can_exist(k, reached, groups, num_nodes):
    card = altered(
        privacy__k=k,
        privacy__k_reached=reached,
        privacy__num_clusters=groups,
        privacy__homogeneous=0,
        num_tokens=groups,
        parameters__k=k,
        source__num_nodes=num_nodes,
        source__num_labelled=1,
        num_trees=1,
    )
    check_card(card)
    if k <= reached and reached * groups <= num_nodes:
        check_groups(card)
    else:
        with pytest.raises(ValueError, match='contradicts itself'):
            check_groups(card)


@given(st.lists(st.integers(-1, 2000), max_size=20))
def test_trees_have_a_bounded_number_of_slots(fan_outs):
    card = copy.deepcopy(VALID['k_anonymous'])
    card['num_neighbors'] = fan_outs
    try:
        check_card(card)
    except ValueError as error:
        assert 'num_neighbors' in str(error) or 'number of slots' in str(error)
    else:
        assert tensor_specs(card)['tokens'].shape[1] <= MAX_SLOTS


def test_forged_sentences_of_groups_are_refused_in_the_newest_format(graph, cached, tmp_path):
    SyntheticCGTDataset(graph, **cached).save(tmp_path / 'release')
    for i, (name, value) in enumerate(
        [
            ('guaranteed', ['Nothing can be learned.']),
            ('not_guaranteed', []),
            ('unit', 'everybody'),
            ('homogeneous', 0),
        ]
    ):
        folder = Path(shutil.copytree(tmp_path / 'release', tmp_path / f'{i}'))
        card = card_of(folder)
        assert card['format'] > 1
        card['privacy'][name] = value
        seal(folder, card)
        with pytest.raises(CorruptFileError, match='does not match its facts: it was altered'):
            SyntheticCGTDataset.load(folder)


def with_card(release, change):
    card = json.loads(json.dumps(release.card))
    change(card)
    return replace(release, card=card)


WRONG = {
    'codebook': lambda r: replace(r, codebook=r.codebook * float('nan')),
    'rows': lambda r: replace(r, codebook=r.codebook[:-1]),
    'type': lambda r: replace(r, codebook=r.codebook.long()),
    'projection': lambda r: replace(r, projection=torch.zeros(2, 2)),
    'k': lambda r: with_card(r, lambda card: card['privacy'].update(k_reached=1)),
    'sentences': lambda r: with_card(r, lambda card: card['privacy'].update(guaranteed=[])),
    'trees': lambda r: with_card(r, lambda card: card.update(num_trees=7)),
    'name': lambda r: with_card(r, lambda card: card['source'].update(name='two\nlines')),
}


@pytest.mark.parametrize('name', WRONG)
@pytest.mark.parametrize('base', ['k_anonymous', 'histograms'])
def test_nothing_is_saved_that_loading_refuses(base, name, tmp_path):
    release = read_release(RECORDED / base)
    if base == 'histograms' and name == 'k':
        pytest.skip('a differentially private card has no k')
    with pytest.raises(CorruptFileError, match=r'not saved to .*out.* loading would refuse it'):
        save_release(tmp_path / 'out', WRONG[name](release))
    assert list(tmp_path.iterdir()) == []
    save_release(tmp_path / 'out', release)
    assert read_release(tmp_path / 'out').card == release.card


def test_a_large_release_is_saved_and_loaded_with_the_same_argument(tmp_path):
    release = read_release(RECORDED / 'k_anonymous')
    with pytest.raises(
        CorruptFileError, match=r'not saved .*out.* loading would refuse.*max_bytes'
    ):
        save_release(tmp_path / 'out', release, max_bytes=5000)
    assert list(tmp_path.iterdir()) == []
    save_release(tmp_path / 'out', release, max_bytes=10_000)
    assert SyntheticCGTDataset.load(tmp_path / 'out', max_bytes=10_000).card == release.card


@pytest.mark.parametrize(
    'names', [None, [], 'pos', [1], ['two\nlines'], ['x' * 2000], ['a'] * 2000]
)
def test_names_of_attributes_that_are_not_carried_over(names):
    card = altered(source__not_carried=['pos', 'time'])
    check_card(card)
    card['source']['not_carried'] = names
    with pytest.raises(ValueError, match="'not_carried' of the card"):
        check_card(card)
