import math

import pytest

from torch_geometric_cgt.audit import largest_bound
from torch_geometric_cgt.audit.attack_limit import Limit, sharpest
from torch_geometric_cgt.privacy import Entry, Gaussian, Ledger
from torch_geometric_cgt.release.card import Card

LEDGER = Ledger(['counts'], [Entry('counts', 'histogram', noise=Gaussian(3.0))])


def limit(epsilon, delta=0.0):
    return Limit(epsilon, delta, '')


def private_card(epsilon, delta, protects):
    return Card('differential privacy', 2, epsilon=epsilon, delta=delta, protects=protects)


def test_nothing_is_to_be_seen_at_epsilon_zero():
    assert limit(0.0).highest(0.3) == pytest.approx(0.3)
    assert limit(0.0).max_auc == pytest.approx(0.5)
    assert limit(0.0, 0.1).highest(0.3) == pytest.approx(0.4)


def test_both_sides_are_bounded():
    assert limit(math.log(3)).highest(0.01) == pytest.approx(0.03)
    assert limit(math.log(3)).highest(0.7) == pytest.approx(1 - 0.3 / 3)
    assert limit(1000.0).highest(0.01) == 1.0 and limit(1000.0).max_auc == 1.0


@pytest.mark.parametrize('epsilon, delta', [(0.5, 0.0), (2.0, 0.0), (1.0, 0.05)])
def test_area_is_that_under_the_curve(epsilon, delta):
    at = limit(epsilon, delta)
    steps = 20_000
    area = sum(at.highest((i + 0.5) / steps) for i in range(steps)) / steps
    assert at.max_auc == pytest.approx(area, abs=1e-4)


def test_where_a_limit_comes_from():
    plain = Card('k-anonymity', 2, k=3, k_reached=3)
    assert Limit.of(plain).epsilon == 1.0 and 'convention' in Limit.of(plain).origin
    for unit in ('record', 'node'):
        private = private_card(4.0, 1e-5, unit)
        found = Limit.of(private)
        assert (found.epsilon, found.delta) == (4.0, 1e-5)
        assert 'the claim' in found.origin and unit in found.origin
        assert (
            Limit.of(private, 0.5).epsilon == 0.5 and 'asked for' in Limit.of(private, 0.5).origin
        )
    with pytest.raises(ValueError, match='-1'):
        Limit.of(plain, -1)


def test_a_claim_for_edges_is_not_held_against_attacks_on_records():
    found = Limit.of(private_card(0.1, 1e-5, 'edge'))
    assert found.epsilon == 1.0 and 'for the edge only' in found.origin


@pytest.mark.parametrize('low, high', [(0.0, 0.1), (0.2, 0.3), (0.1, 0.9), (0.6, 0.9)])
def test_the_largest_gain_is_found_by_trying(low, high):
    at = limit(1.0, 0.02)
    tried = [low + (high - low) * i / 1000 for i in range(1001)]
    assert at.highest_gain(low, high) == pytest.approx(
        max(at.highest(q) - q for q in tried), abs=1e-3
    )


def claim(delta=1e-4):
    epsilon = LEDGER.total('record', delta).epsilon
    return Limit(epsilon, delta, 'the card', ledger=LEDGER)


def test_the_claim_at_another_delta_is_that_of_the_ledger():
    limit = claim().at(1e-6)
    assert limit.epsilon == LEDGER.total('record', 1e-6).epsilon > claim().epsilon
    assert limit.delta == 1e-6 and 'the card. At delta = 1e-06' in limit.origin
    assert claim().at(1e-4) == claim()


def test_a_claim_without_a_ledger_says_nothing_of_a_smaller_delta():
    alone = Limit(1.0, 1e-4, '')
    assert alone.at(1e-3) == alone  # which allows for more
    with pytest.raises(ValueError, match='says nothing about delta = 1e-06'):
        alone.at(1e-6)
    assert sharpest(alone, 1000) == alone


def test_the_sharpest_delta_leaves_most_room_above_the_claim():
    chosen = sharpest(claim(), 1000)
    room = {d: largest_bound(1000, d) - claim().at(d).epsilon for d in (1e-4, 1e-5, 1e-6, 1e-8)}
    assert largest_bound(1000, chosen.delta) - chosen.epsilon == max(room.values())
    assert chosen.delta < 1e-4 and room[1e-4] < room[chosen.delta] - 1


@pytest.mark.parametrize('unit, attacked, says', [('record', 'record', ''), ('node', 'node', '')])
def test_an_attack_on_the_unit_leaves_nothing_out(unit, attacked, says):
    assert Limit(1.0, 0.0, '', unit=unit).scope(attacked) == says


def test_an_attack_on_a_record_says_what_it_leaves_out_of_a_claim_for_a_node():
    says = Limit(1.0, 0.0, '', unit='node').scope('record')
    assert 'The attack is on one record' in says and 'The claim is for a node' in says
    assert Limit(1.0, 0.0, '', is_claim=False, unit='node').scope('record') == ''
