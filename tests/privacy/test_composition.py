"""Several builds cost what one ledger with all their entries costs."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tests.helpers.costs import DELTA, OTHER_UNIT, UNIT, gaussian_cost
from torch_geometric_cgt.privacy import Budget, composition
from torch_geometric_cgt.privacy.composition import Cost, compose, left

SIGMAS = st.lists(st.floats(1.0, 30.0), min_size=1, max_size=4)


def exact_delta(sigmas, epsilon: float) -> float:
    """The delta of Gaussian mechanisms with sensitivity 1 (Balle and Wang, 2018)."""
    mu = math.sqrt(sum(sigma**-2 for sigma in sigmas))
    upper = norm.cdf(mu / 2 - epsilon / mu)
    return upper - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def check_exact(sigmas, together) -> None:
    """A composed epsilon is valid, and not larger than needed."""
    assert exact_delta(sigmas, together) <= DELTA * (1 + 1e-6)
    assert exact_delta(sigmas, together - 0.01) > DELTA * (1 - 1e-6)


@settings(max_examples=15, deadline=None)
@given(SIGMAS)
def test_gaussian_builds_compose_exactly(sigmas):
    check_exact(sigmas, compose([gaussian_cost(sigma) for sigma in sigmas], DELTA))


@pytest.mark.parametrize('wrong', [sum, max], ids=['the sum', 'the largest'])
def test_other_totals_are_found_out(wrong):
    sigmas = [2.0, 3.0]
    with pytest.raises(AssertionError):
        check_exact(sigmas, wrong([gaussian_cost(sigma).epsilon for sigma in sigmas]))


def test_equal_builds_are_one_entry_with_more_runs():
    costs = [gaussian_cost(4.0)] * 9
    merged = composition._merge([cost.read_ledger() for cost in costs])
    assert [entry.count for entry in merged.entries] == [9]
    check_exact([4.0] * 9, compose(costs, DELTA))


def test_costs_of_two_units_are_not_composed():
    with pytest.raises(ValueError, match=f'per {OTHER_UNIT}'):
        compose([gaussian_cost(4.0), gaussian_cost(4.0, OTHER_UNIT)], DELTA)


def test_a_ledger_that_cannot_be_read_is_added():
    own, other = gaussian_cost(4.0), Cost(UNIT, 1.5, 1e-6, {'of': 'another version'})
    assert compose([other], DELTA) == 1.5
    rest = compose([own], DELTA - 1e-6)
    assert compose([own, other], DELTA) == pytest.approx(1.5 + rest)
    assert compose([own, Cost(UNIT, 1.5, DELTA, {})], DELTA) == math.inf
    assert compose([Cost(UNIT, 1.5, 2 * DELTA, {})], DELTA) == math.inf


def test_different_samples_share_delta():
    own = gaussian_cost(4.0)
    sample = {'max_parents': 2, 'depth': 2, 'undirected': True}
    other = Cost(UNIT, own.epsilon, DELTA, {**own.ledger, 'sample': sample})
    assert compose([own, other], DELTA) == pytest.approx(2 * compose([own], DELTA / 2))


def test_what_is_left_fits_and_nothing_larger_does():
    limit, spent = Budget(3.0, DELTA, UNIT), [gaussian_cost(4.0)]
    rest = left(spent, limit)
    assert limit.epsilon - spent[0].epsilon < rest < limit.epsilon

    def sigma_of(epsilon):
        return 1 / math.sqrt(2 * Budget(epsilon, DELTA, UNIT).concentrated)

    assert compose([*spent, gaussian_cost(sigma_of(0.999 * rest))], DELTA) <= 3.0
    assert compose([*spent, gaussian_cost(sigma_of(1.05 * rest))], DELTA) > 3.0
    assert left([], limit) == 3.0
    assert left([gaussian_cost(0.5)], limit) == 0.0
    assert 0 < left([Cost(UNIT, 1.0, 0.0, {})], limit) <= 2.0
