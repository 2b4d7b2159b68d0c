import math
import sys

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.privacy import DiscreteGaussian, Gaussian, Laplace, SampledGaussian
from torch_geometric_cgt.privacy.accounting import (
    Loss,
    epsilon_of,
    privacy_loss,
    substitution_epsilon_of,
)

DELTA = 1e-5


def gaussian_epsilon(mu: float, delta: float = DELTA) -> float:
    """Of a Gaussian mechanism whose shift is mu standard deviations (Balle and Wang, 2018)."""

    def excess(epsilon):
        head = norm.cdf(mu / 2 - epsilon / mu)
        return head - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 0, 200)


@pytest.mark.parametrize('sigma', [0.3, 1.0, 5.0, 40.0])
def test_a_gaussian_mechanism_costs_what_the_formula_says(sigma):
    epsilon, accountant = epsilon_of([Loss(Gaussian(sigma), 2.0)], DELTA)
    assert accountant == 'pld'
    expected = gaussian_epsilon(2 / sigma)
    assert expected <= epsilon < expected + 1e-3 + 1e-3 * expected


def test_gaussian_mechanisms_add_up_in_squares():
    losses = [Loss(Gaussian(4.0), 1.0, count=9), Loss(Gaussian(5.0), 2.0, group=2)]
    mu = math.sqrt(9 / 16 + 16 / 25)
    assert epsilon_of(losses, DELTA)[0] == pytest.approx(gaussian_epsilon(mu), rel=1e-3)


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


def test_nothing_costs_nothing():
    assert epsilon_of([], DELTA) == (0.0, 'none')
    assert substitution_epsilon_of([Loss(Gaussian(1.0), 1.0, group=0)], DELTA) == (0.0, 'none')


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, 'dp_accounting', None)
    with pytest.raises(UnsupportedError, match=r"pip install 'torch-geometric-cgt\[dp\]'"):
        epsilon_of([Loss(Gaussian(1.0), 1.0)], DELTA)
