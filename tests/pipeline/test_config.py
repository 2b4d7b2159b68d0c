"""Parameters of a build: they come back from a file."""

import pytest

from torch_geometric_cgt.pipeline.config import BuildConfig, KAnonymity
from torch_geometric_cgt.release.card import Card


def test_configurations_and_cards_come_back():
    for config in (BuildConfig(), BuildConfig(KAnonymity(5, min_support=4), (3, 2, 1))):
        assert BuildConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="'min_support' must be at least 1"):
        KAnonymity(min_support=0)
    card = Card('k-anonymity', 4, 5, 6, 0, 2, 0.1, 0.0, 0.5, min_support=4)
    assert Card.from_dict(card.to_dict()) == card


def test_a_k_anonymous_build_has_the_name_it_always_had():
    assert 'private' not in BuildConfig().to_dict()


def test_builds_without_it_keep_their_names():
    assert 'cluster_epsilon' not in BuildConfig().to_dict()
    assert BuildConfig(KAnonymity(cluster_epsilon=2)).to_dict()['cluster_epsilon'] == 2
