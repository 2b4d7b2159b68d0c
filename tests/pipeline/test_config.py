"""The parameters of a build come back from a file, and name its folder."""

import pytest
import torch

from tests.helpers.configs import CHANGES, config
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.pipeline import BuildConfig, KAnonymity, cache_name, check_source
from torch_geometric_cgt.release.card import Card


def test_every_parameter_has_a_cache_of_its_own(graph):
    source = check_source(graph)
    names = [cache_name(source, config(**change)) for change in [{}, *CHANGES]]
    assert len(set(names)) == len(names)
    runtime = FitConfig(compile=True, checkpoint_minutes=1.0, resume=False)
    assert cache_name(source, config(fit=runtime)) == names[0]  # how it is run is no parameter


@pytest.mark.parametrize('attribute', ['x', 'edge_index', 'y', 'train_mask'])
def test_a_changed_source_has_a_cache_of_its_own(graph, attribute):
    changed = graph.clone()
    if attribute == 'train_mask':
        changed.train_mask = torch.ones(graph.num_nodes, dtype=torch.bool)
    else:
        changed[attribute].view(-1)[0] = (changed[attribute].view(-1)[0] + 1) % 3
    names = [cache_name(check_source(data), config()) for data in (graph, graph.clone(), changed)]
    assert names[0] == names[1] != names[2]


def test_configurations_and_cards_come_back():
    for own in (BuildConfig(), BuildConfig(KAnonymity(5, min_support=4), (3, 2, 1))):
        assert BuildConfig.from_dict(own.to_dict()) == own
    with pytest.raises(ValueError, match="'min_support' must be at least 1"):
        KAnonymity(min_support=0)
    card = Card('k-anonymity', 4, 5, 6, 0, 2, 0.1, 0.0, 0.5, min_support=4)
    assert Card.from_dict(card.to_dict()) == card


def test_a_k_anonymous_build_has_the_name_it_always_had():
    assert 'private' not in BuildConfig().to_dict()


def test_builds_without_it_keep_their_names():
    assert 'cluster_epsilon' not in BuildConfig().to_dict()
    assert BuildConfig(KAnonymity(cluster_epsilon=2)).to_dict()['cluster_epsilon'] == 2


@pytest.mark.parametrize(('num_roots', 'number'), [(1, 12), (8333, 12), (10_000, 10), (10**6, 3)])
def test_large_graphs_get_fewer_candidates(num_roots, number):
    assert BuildConfig(KAnonymity(5)).num_candidates_for(num_roots) == number


def test_a_build_without_the_tilt_draws_each_tree_once():
    own = BuildConfig(KAnonymity(5), generator={'model': 'NGram'})
    assert not own.uses_tilt and own.num_candidates_for(100) == 1
