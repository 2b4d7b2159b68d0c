"""Facts of cards about degrees and homophily: those of no build are refused."""

import pytest
import torch

from torch_geometric_cgt.release.profile_facts import (
    check_profile_facts,
    profile_sentences,
    profile_specs,
    read_profile,
)

FACTS = {'k': 10, 'k_reached': 12, 'num_groups': 8, 'homophily': 0.75}


def card(profile=FACTS, **changes):
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


def test_the_tensor_of_the_card():
    given = card({**FACTS, 'k_reached': 10, 'num_groups': 10})
    check_profile_facts(given)
    assert profile_specs(given)['mean_degree'].shape == (10,)
    assert profile_specs(card(None)) == {}
    older = card(None, parameters={'k': 10})
    check_profile_facts(older)
    few = card(None, source={'num_labelled': 9, 'num_edges': 400})
    check_profile_facts(few)


@pytest.mark.parametrize(
    'given, message',
    [
        (card(), 'contradicts itself'),
        (card({**FACTS, 'k_reached': 10, 'num_groups': 10, 'k': 9}), 'contradicts itself'),
        (card({**FACTS, 'num_groups': 0}), 'must be an integer'),
        (card({**FACTS, 'homophily': 1.5}), 'must be a number'),
        (card({**FACTS, 'sizes': []}), 'must hold'),
        (card(None), 'is missing'),
        (card(parameters={'k': 10}), 'has no profile'),
        (card(parameters={'k': 10, 'graph_profile': 1}), 'must be true or false'),
        (card(format=2), 'has no profile'),
        (card() | {'privacy': {'mechanism': 'differential privacy', 'profile': FACTS}}, 'has no'),
    ],
)
def test_facts_of_no_build_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_profile_facts(given)


@pytest.mark.parametrize('means', [[2.0, 1.0], [-1.0, 1.0], [1.0, 401.0], [float('nan'), 1.0]])
def test_degrees_of_no_graph_are_refused(means):
    with pytest.raises(ValueError, match='must ascend'):
        read_profile(card(), {'mean_degree': torch.tensor(means, dtype=torch.float64)})
    assert read_profile(card(None), {}) is None


def test_sentences_name_the_size_of_groups_and_what_is_not_covered():
    (promised,), (limit,) = profile_sentences({'profile': FACTS})
    assert 'at least 10 nodes (the smallest has 12)' in promised and '0.75' in promised
    assert 'neighbours' in limit
    (without,), _ = profile_sentences({'profile': {**FACTS, 'homophily': None}})
    assert 'label' not in without
    assert profile_sentences({}) == ([], [])
