import math
from types import SimpleNamespace

import pytest

from tests.release.test_card import card
from torch_geometric_cgt.audit.limit import Limit


def limit(epsilon, delta=0.0):
    return Limit(epsilon, delta, '')


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
    plain = card()
    assert Limit.of(plain).epsilon == 1.0 and 'convention' in Limit.of(plain).origin
    for unit in ('record', 'node'):
        private = SimpleNamespace(epsilon=4.0, delta=1e-5, protects=unit)
        found = Limit.of(private)
        assert (found.epsilon, found.delta) == (4.0, 1e-5)
        assert 'the claim' in found.origin and unit in found.origin
        assert (
            Limit.of(private, 0.5).epsilon == 0.5 and 'asked for' in Limit.of(private, 0.5).origin
        )
    with pytest.raises(ValueError, match='-1'):
        Limit.of(plain, -1)


def test_a_claim_for_edges_is_not_held_against_attacks_on_records():
    found = Limit.of(SimpleNamespace(epsilon=0.1, delta=1e-5, protects='edge'))
    assert found.epsilon == 1.0 and 'for the edge only' in found.origin


@pytest.mark.parametrize('low, high', [(0.0, 0.1), (0.2, 0.3), (0.1, 0.9), (0.6, 0.9)])
def test_the_largest_gain_is_found_by_trying(low, high):
    at = limit(1.0, 0.02)
    tried = [low + (high - low) * i / 1000 for i in range(1001)]
    assert at.highest_gain(low, high) == pytest.approx(
        max(at.highest(q) - q for q in tried), abs=1e-3
    )
