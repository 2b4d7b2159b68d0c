import math

import pytest

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.epsilon_bounds import ClaimFamily, GaussianFamily
from torch_geometric_cgt.privacy import Entry, Gaussian, Ledger
from torch_geometric_cgt.release.card import Card

LEDGER = Ledger(['counts'], [Entry('counts', 'histogram', {'node': 1.0}, Gaussian(3.0))])


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
    for unit, attacked in (('record', 'frozen_record'), ('node', 'node'), ('edge', 'edge')):
        private = private_card(4.0, 1e-5, unit)
        found = Limit.of(private, attacked=attacked)
        assert (found.epsilon, found.delta) == (4.0, 1e-5)
        assert 'the claim' in found.origin and unit in found.origin
        asked = Limit.of(private, 0.5, attacked)
        assert asked.epsilon == 0.5 and 'asked for' in asked.origin
    with pytest.raises(ValueError, match='-1'):
        Limit.of(plain, -1)
    with pytest.raises(ValueError, match="got 'star'"):
        Limit.of(plain, attacked='star')


def test_a_claim_is_held_against_attacks_on_what_it_covers():
    for unit in ('edge', 'attributes', 'frozen_record'):
        found = Limit.of(private_card(0.1, 1e-5, unit), attacked='node')
        assert found.epsilon == 1.0 and not found.is_claim
        assert f"for the unit '{unit.replace('_', ' ')}' only" in found.origin
    node = private_card(2.0, 1e-5, 'node')
    assert Limit.of(node, attacked='frozen_record').epsilon == 2.0
    for attacked in ('edge', 'attributes'):  # the node is removed, and added with a change
        found = Limit.of(node, attacked=attacked)
        assert found.epsilon == 4.0 and found.delta == pytest.approx((1 + math.e**2) * 1e-5)


@pytest.mark.parametrize('low, high', [(0.0, 0.1), (0.2, 0.3), (0.1, 0.9), (0.6, 0.9)])
def test_the_largest_gain_is_found_by_trying(low, high):
    at = limit(1.0, 0.02)
    tried = [low + (high - low) * i / 1000 for i in range(1001)]
    assert at.highest_gain(low, high) == pytest.approx(
        max(at.highest(q) - q for q in tried), abs=1e-3
    )


def claim(delta=1e-4):
    epsilon = LEDGER.total('node', delta).epsilon
    return Limit(epsilon, delta, 'the card', unit='node', ledger=LEDGER)


def test_the_claim_of_a_gaussian_ledger_is_one_gaussian_curve():
    family, mu = claim().family()
    assert family == GaussianFamily(1e-4)
    assert mu == pytest.approx(1 / 3, rel=0.02)  # the sensitivity divided by sigma
    assert mu >= 1 / 3 - 1e-9  # never stricter than the claim
    assert family.epsilon(mu) == pytest.approx(claim().epsilon, rel=0.05)


def test_a_claim_without_a_ledger_is_one_pair():
    assert Limit(2.0, 1e-4, '').family() == (ClaimFamily(1e-4), 2.0)
    assert Limit(1.0, 0.0, '', is_claim=False).family() == (ClaimFamily(0.0), 1.0)


@pytest.mark.parametrize('unit, attacked', [('record', 'frozen_record'), ('node', 'node')])
def test_an_attack_on_the_unit_leaves_nothing_out(unit, attacked):
    assert Limit(1.0, 0.0, '', unit=unit).scope(attacked) == ''


def test_an_attack_on_a_record_says_what_it_leaves_out_of_a_claim_for_a_node():
    says = Limit(1.0, 0.0, '', unit='node').scope('frozen_record')
    assert 'The attack is on one record' in says and 'The claim is for a node' in says
    assert Limit(1.0, 0.0, '', is_claim=False, unit='node').scope('frozen_record') == ''
