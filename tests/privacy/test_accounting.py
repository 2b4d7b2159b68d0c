import math
import sys

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from torch_geometric_cgt.errors import BudgetError, UnsupportedError
from torch_geometric_cgt.privacy import (
    Budget,
    DiscreteGaussian,
    Entry,
    Gaussian,
    Laplace,
    Ledger,
    SampledGaussian,
)
from torch_geometric_cgt.privacy import accounting as privacy_accounting
from torch_geometric_cgt.privacy.accounting import (
    Loss,
    epsilon_of,
    privacy_loss,
    substitution_epsilon_of,
)

DELTA = 1e-5


@pytest.mark.parametrize(
    'epsilon, delta, message',
    [
        (0.0, 1e-5, "'epsilon' must be positive .*got 0.0"),
        (float('inf'), 1e-5, "'epsilon'"),
        (1.0, 0.0, "'delta' must lie between 0 and 1 .got 0.0"),
        (1.0, 1.5, "'delta'"),
        (1.0, 0.01, r"'delta' must not exceed 1 / n = 0.001 for 1000 rows .got 0.01"),
    ],
)
def test_wrong_budgets(epsilon, delta, message):
    with pytest.raises(BudgetError, match=message):
        Budget.of(epsilon, delta, 1000)


@pytest.mark.parametrize('value', ['a', True, [1.0]])
def test_budgets_are_numbers(value):
    with pytest.raises(BudgetError, match="'epsilon' must be a number"):
        Budget(value, 1e-5)
    with pytest.raises(BudgetError, match="'delta' must be a number"):
        Budget(1.0, value)


def test_budgets_that_cannot_be_spent_or_divided():
    assert Budget(1e-6, 1e-4).concentrated > 0  # delta pays
    with pytest.raises(BudgetError, match=r'too small compared with delta = 0.0001 to be divided'):
        Budget(1e-6, 1e-4).part(0.5)
    assert Budget(1.0, 1e-4).part(1.0) == Budget(1.0, 1e-4)
    with pytest.raises(BudgetError, match='both are too small'):
        _ = Budget(1e-13, 1e-13).concentrated
    with pytest.raises(BudgetError, match='epsilon is too large'):
        _ = Budget(1e9, 1e-4).concentrated


def test_budgets():
    assert Budget.of(1.0, None, 1000).delta < 1e-3
    assert Budget.of(1.0, 0.01, 1000, accept_large_delta=True).delta == 0.01
    for epsilon in [0.1, 1.0, 30.0]:
        sigma = Gaussian(1.0).at_cost(Budget(epsilon, DELTA).concentrated, 1.0)
        spent = (
            Ledger(['a'], [Entry('a', 'sums', {'node': 1.0}, sigma)]).total('node', DELTA).epsilon
        )
        assert spent == pytest.approx(epsilon, rel=1e-3)


def gaussian_epsilon(mu: float, delta: float = DELTA) -> float:
    """Of a Gaussian mechanism whose shift is mu standard deviations (Balle and Wang, 2018)."""

    def excess(epsilon):
        head = norm.cdf(mu / 2 - epsilon / mu)
        return head - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 0, 200)


@pytest.mark.parametrize('sigma', [0.3, 1.0, 5.0, 40.0])
def test_a_gaussian_mechanism_costs_what_the_formula_says(sigma):
    epsilon, accountant = epsilon_of([Loss(Gaussian(sigma), 2.0)], DELTA)
    assert accountant == 'gaussian'
    expected = gaussian_epsilon(2 / sigma)
    assert expected <= epsilon < expected + 2e-5 + 2e-5 * expected
    pld = privacy_loss([Loss(Gaussian(sigma), 2.0)], DELTA).get_epsilon_for_delta(DELTA)
    assert epsilon == pytest.approx(pld, abs=1e-3, rel=1e-3)


def test_gaussian_mechanisms_add_up_in_squares():
    losses = [Loss(Gaussian(4.0), 1.0, count=9), Loss(Gaussian(5.0), 2.0, group=2)]
    mu = math.sqrt(9 / 16 + 16 / 25)
    assert epsilon_of(losses, DELTA)[0] == pytest.approx(gaussian_epsilon(mu), rel=1e-4)


@pytest.mark.parametrize('distance', [1e-4, 0.01, 1.0, 30.0, 300.0])
@pytest.mark.parametrize('delta', [1e-3, 1e-12])
def test_the_exact_formula_is_an_upper_bound(distance, delta):
    """Its epsilon is at least the one at which the mechanism fails with probability delta."""
    epsilon = privacy_accounting.gaussian_epsilon(distance, delta)
    above = norm.logcdf(distance / 2 - epsilon / distance)
    below = epsilon + norm.logcdf(-distance / 2 - epsilon / distance)
    assert 0 <= math.exp(above) - math.exp(min(below, above)) <= delta
    less = epsilon * (1 - 4e-5) - 4e-5
    if less > 0:  # and not much more
        above = norm.logcdf(distance / 2 - less / distance)
        assert math.exp(above) - math.exp(less + norm.logcdf(-distance / 2 - less / distance)) > (
            delta
        )


def test_totals_are_those_of_an_independent_composition():
    import dp_accounting as dp

    losses = [
        Loss(Gaussian(3.0), 1.5),
        Loss(Laplace(2.0), 0.5, count=3),
        Loss(SampledGaussian(1.1, 0.05, 300), 1.0),
    ]
    event = dp.ComposedDpEvent(
        [
            dp.GaussianDpEvent(2.0),
            dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0), 3),
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(1.1)), 300),
        ]
    )
    finer = dp.pld.PLDAccountant(value_discretization_interval=3e-4).compose(event)
    found, accountant = epsilon_of(losses, DELTA)
    assert found == pytest.approx(finer.get_epsilon(DELTA), rel=1e-3)
    assert accountant == 'pld' and found < dp.rdp.RdpAccountant().compose(event).get_epsilon(DELTA)


def test_one_count_with_discrete_noise_by_summation():
    sigma, epsilon = 1.25, 3.0
    z = np.arange(-60, 61)
    mass = np.exp(-(z**2) / (2 * sigma**2))
    mass /= mass.sum()
    delta = np.maximum(mass[1:] - math.exp(epsilon) * mass[:-1], 0).sum()
    found = epsilon_of([Loss(DiscreteGaussian(sigma), 1.0)], delta)[0]
    assert found == pytest.approx(epsilon, abs=5e-3)


def test_several_counts_with_discrete_noise_fall_back_to_what_is_proven():
    """Between the Gaussian that it resembles and the Rényi bound, which is proven."""
    loss = Loss(DiscreteGaussian(10.0), math.sqrt(3))
    epsilon, accountant = epsilon_of([loss], DELTA)
    assert accountant == 'rdp'
    exact = gaussian_epsilon(math.sqrt(3) / 10)
    assert exact < epsilon < 1.25 * exact
    # Beside a mechanism that has no Rényi bound, it still has a privacy loss distribution.
    steps = Loss(SampledGaussian(3.0, 0.01, 10), 1.0, group=2)
    both, accountant = epsilon_of([loss, steps], DELTA)
    assert accountant == 'pld' and both > epsilon


def test_a_group_in_dp_sgd_by_integration():
    """One step, three records: the number of them in the batch is binomial."""
    group, q, z = 3, 0.2, 2.0
    x = np.linspace(-20, 25, 200_001)
    number = np.arange(group + 1)
    with_group = binom.pmf(number, group, q) @ norm.pdf(x, number[:, None], z)
    without = norm.pdf(x, 0, z)
    loss = Loss(SampledGaussian(z, q, 1), 1.0, group=group)
    pld = privacy_loss([loss], 1e-3)
    for epsilon in [0.1, 0.5, 1.0]:
        remove = np.trapezoid(np.maximum(with_group - math.exp(epsilon) * without, 0), x)
        add = np.trapezoid(np.maximum(without - math.exp(epsilon) * with_group, 0), x)
        found = pld.get_delta_for_epsilon(epsilon)
        assert max(remove, add) <= found + 1e-9
        assert found == pytest.approx(max(remove, add), rel=1e-2, abs=1e-6)


def test_groups_in_dp_sgd():
    def cost(group, q=0.02, z=2.0):
        return epsilon_of([Loss(SampledGaussian(z, q, 100), 1.0, group=group)], DELTA)[0]

    one, two, seven = cost(1), cost(2), cost(7)
    assert one < two < seven
    assert seven > 5 * one  # no less than about proportional, and more in the tails
    everybody = cost(3, q=1.0, z=50.0)  # a full batch is a Gaussian mechanism
    assert everybody == pytest.approx(gaussian_epsilon(3 / 50 * math.sqrt(100)), rel=5e-3)


def test_many_trees_of_a_node_are_accounted_for_quickly():
    loss = Loss(SampledGaussian(60.0, 0.02, 200), 1.0, group=156)
    assert 0.5 < epsilon_of([loss], DELTA)[0] < 10


@pytest.mark.parametrize('sigma', [1.0, 10.0])
def test_an_exchange_costs_at_least_what_twice_the_shift_costs(sigma):
    loss = [Loss(Gaussian(sigma), 1.0)]
    one, two = epsilon_of(loss, DELTA)[0], gaussian_epsilon(2 / sigma)
    exchanged = substitution_epsilon_of(loss, DELTA)[0]
    crude = 2 * epsilon_of(loss, DELTA / (1 + math.exp(one + 1)))[0]
    assert two <= exchanged <= crude
    assert exchanged == pytest.approx(two, rel=1e-4)  # twice the shift is all there is


def test_an_exchange_without_a_formula_costs_no_less_than_with_it():
    """Laplace noise that costs next to nothing leaves the way over the third dataset."""
    loss = Loss(Gaussian(2.0), 1.0)
    exact = substitution_epsilon_of([loss], DELTA)[0]
    found, accountant = substitution_epsilon_of([loss, Loss(Laplace(1e6), 1.0)], DELTA)
    assert accountant == 'pld' and exact < found < 1.5 * exact


@pytest.mark.parametrize('epsilon', [0.3, 2.0, 9.0])
def test_an_exchange_is_the_best_division_of_epsilon(epsilon):
    """By the inequality itself, on a finer grid: both datasets are one step from a third."""
    losses = [Loss(SampledGaussian(1.5, 0.1, 20), 1.0), Loss(Laplace(3.0), 1.0)]
    pld = privacy_loss(losses, DELTA)

    def smallest_delta(epsilon):
        first = np.linspace(0.0, epsilon, 2001)
        bound = pld.get_delta_for_epsilon(first)
        return float((bound + np.exp(first) * bound[::-1]).min())

    delta = smallest_delta(epsilon)
    found = substitution_epsilon_of(losses, delta)[0]
    assert smallest_delta(found) <= delta * 1.001
    assert found == pytest.approx(epsilon, abs=3e-3)


def test_nothing_costs_nothing():
    assert epsilon_of([], DELTA) == (0.0, 'none')
    assert substitution_epsilon_of([Loss(Gaussian(1.0), 1.0, group=0)], DELTA) == (0.0, 'none')


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, 'dp_accounting', None)
    with pytest.raises(UnsupportedError, match=r"pip install 'torch-geometric-cgt\[dp\]'"):
        epsilon_of([Loss(Laplace(1.0), 1.0)], DELTA)
    assert epsilon_of([Loss(Gaussian(1.0), 1.0)], DELTA)[0] > 1  # needs no other package
