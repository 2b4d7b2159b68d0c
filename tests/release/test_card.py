import pytest
import torch

from tests.helpers.cards import card
from torch_geometric_cgt.pipeline.measure import measure_groups
from torch_geometric_cgt.release.card import Card


def test_card_by_hand():
    assert card() == Card(
        'k-anonymity',
        k=3,
        k_reached=3,
        num_clusters=2,
        homogeneous=1,
        l_reached=1,
        t_closeness=0.5,
        task_weight=0.0,
        unique_share=round(2 / 6, 4),
    )


def test_card_survives_json():
    content = card().to_dict()
    assert Card.from_dict(content) == card()
    assert content['mechanism'] == 'k-anonymity' and content['epsilon'] is None


def test_private_groups_promise_no_size():
    cluster, y = torch.tensor([0, 0, 2]), torch.tensor([0, 1, 1])
    tokens = torch.tensor([[0, 4], [0, 4], [2, 4]])
    measured = measure_groups(1, cluster, y, tokens, fan_out=1, num_clusters=4)
    cost = {'cluster_epsilon': 1.5, 'cluster_delta': 1e-3}
    found = Card('private clusters', **measured, **cost)
    assert (found.num_clusters, found.k_reached) == (4, 0)
    assert 'epsilon = 1.5, delta = 0.001, for one node' in found.guaranteed[0]
    assert 'the smallest has 0 nodes' in found.not_guaranteed[1]
    assert found.summary.startswith('4 groups of any size') and found.epsilon is None
    assert Card.from_dict(found.to_dict()) == found


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(ValueError, match=r"Unknown mechanism 'wishes'; known are \['k-anonymity'"):
        Card.from_dict({**card().to_dict(), 'mechanism': 'wishes'})
