"""Bounds from one run and from many: valid for simulated mechanisms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tests.helpers.neighbouring_runs import epsilon_lower_bound
from torch_geometric_cgt.audit.epsilon_bounds import (
    ClaimFamily,
    GaussianFamily,
    binomial_epsilon,
    binomial_p_value,
    gaussian_epsilon,
    is_refuted,
    one_run_bound,
)
from torch_geometric_cgt.privacy import Budget


def test_all_guesses_right():
    # q ** 100 = 0.05, epsilon is the logit of q
    q = 0.05 ** (1 / 100)
    assert binomial_epsilon(100, 100, 100) == pytest.approx(math.log(q / (1 - q)))


def test_the_example_of_the_paper():
    """Appendix D: m = 1000, r = 100, v = 75, delta = 1e-4 at 95 % give 0.673."""
    assert binomial_epsilon(1000, 100, 75, 1e-4) == pytest.approx(0.673, abs=5e-4)


def test_delta_term_by_hand():
    # W of 2 trials with 1/2: P(W >= 2) = 1/4; i = 1: P(W = 1) = 1/2, i = 2: P(W < 2) / 2 = 3/8
    assert binomial_p_value(4, 2, 2, 0.0, 0.01) == pytest.approx(0.25 + 2 * 4 * 0.01 * 0.5)
    assert binomial_p_value(4, 2, 2, 0.0, 0.9) == 1.0


def test_guessing_refutes_nothing():
    assert binomial_epsilon(100, 100, 50) == 0.0
    assert binomial_epsilon(100, 0, 0) == 0.0


@pytest.mark.parametrize('epsilon', [0.5, 1.0, 4.0])
def test_randomised_response_stays_below_its_epsilon(epsilon):
    rng = torch.Generator().manual_seed(0)
    q = 1 / (1 + math.exp(-epsilon))
    right = torch.rand(400, 500, generator=rng) < q  # 400 runs of 500 canaries
    bounds = torch.tensor([binomial_epsilon(500, 500, int(n)) for n in right.sum(dim=1)])
    assert float((bounds <= epsilon).double().mean()) >= 0.95
    assert float(bounds.median()) > 0.6 * epsilon  # and is not trivially small


def test_a_response_that_fails_with_delta():
    """With probability delta a coin is shown as it is."""
    rng, epsilon, delta, m = torch.Generator().manual_seed(1), 1.0, 0.02, 300
    q = delta + (1 - delta) / (1 + math.exp(-epsilon))
    right = (torch.rand(200, m, generator=rng) < q).sum(dim=1)
    bounds = torch.tensor([binomial_epsilon(m, m, int(n), delta) for n in right])
    assert float((bounds <= epsilon).double().mean()) >= 0.95
    for n in right[:5].tolist():  # the term of delta costs something
        assert binomial_epsilon(m, m, n, delta) <= binomial_epsilon(m, m, n)


def test_a_bound_fails_where_the_claim_is_too_small():
    q = 1 / (1 + math.exp(-3.0))
    typical = int(binom(500, q).median())
    assert binomial_epsilon(500, 500, typical) > 1.0


@pytest.mark.parametrize(
    'arguments, message',
    [
        ((10, 11, 5), 'got 5, 11 and 10'),
        ((10, 5, 6), 'got 6, 5 and 10'),
        ((10, 5, 5, 1.0), "'delta'"),
        ((10, 5, 5, 0.0, 1.0), "'confidence'"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        binomial_epsilon(*arguments)


def test_gaussian_privacy_by_hand():
    """At epsilon = 0, delta is the largest difference of two normal probabilities."""
    delta = 2 * 0.6914624612740131 - 1  # of N(0, 1) and N(1, 1): at their middle, 1 / 2
    assert gaussian_epsilon(1.0, delta) == pytest.approx(0.0, abs=1e-9)
    family = GaussianFamily(1e-5)
    for mu in (0.3, 1.0, 4.0):
        assert family.parameter(family.epsilon(mu)) == pytest.approx(mu, rel=1e-6)
    assert family.epsilon(2.0) == pytest.approx(10.0, abs=0.01) and family.epsilon(0.0) == 0
    assert Budget(family.epsilon(2.0), 1e-5).concentrated == pytest.approx(2.0, rel=1e-6)


def test_two_guesses_by_hand():
    """Both right with probability t: p_2 = t, p_1 >= 2 f^-1(t) and so on, all of which is one."""
    family, epsilon = ClaimFamily(), math.log(3)
    curve = family.curve(np.asarray(epsilon))
    # right = t, then wrong = t / 3 and right = t + t / 3, then wrong = (4 / 3 t) / 3: sum is 16/9 t
    assert not is_refuted(2, 2, 2, curve, 9 / 16 - 1e-6)
    assert is_refuted(2, 2, 2, curve, 9 / 16 + 1e-6)
    assert binomial_p_value(2, 2, 2, epsilon) == pytest.approx(9 / 16)


def guessed(rng, mu, m, share):
    """The number of guesses about Gaussian answers, and of those that are right."""
    coin = rng.random(m) < 0.5
    order = np.argsort(-(mu * coin + rng.standard_normal(m)))
    size = int(share * m)
    right = coin[order[:size]].sum() + (~coin[order[m - size :]]).sum()
    return 2 * size, int(right)


@pytest.mark.parametrize('mu', [0.5, 1.0, 3.0])
@pytest.mark.parametrize('share', [0.5, 0.1])
def test_gaussian_mechanisms_stay_below_their_claim(mu, share):
    rng, family, m = np.random.default_rng(0), GaussianFamily(1e-5), 400
    bounds = [one_run_bound(m, *guessed(rng, mu, m, share), family) for _ in range(60)]
    assert sum(bound <= mu for bound in bounds) >= 57
    assert mu < 1 or np.median(bounds) > 0.25 * mu  # and is not trivially small


@settings(max_examples=25, deadline=None)
@given(
    st.integers(20, 400),
    st.sampled_from([0.5, 0.25, 0.1]),
    st.floats(0.2, 4.0),
    st.sampled_from([1e-3, 1e-5]),
    st.integers(0, 1000),
)
def test_the_bound_is_never_below_the_binomial_one(m, share, mu, delta, seed):
    num_guesses, right = guessed(np.random.default_rng(seed), mu, m, share)
    old = binomial_epsilon(m, num_guesses, right, delta)
    for family in (GaussianFamily(delta), ClaimFamily(delta)):
        found = family.epsilon(one_run_bound(m, num_guesses, right, family))
        assert found >= old - 1e-6


def test_the_bound_is_much_tighter_for_gaussian_mechanisms():
    rng, family = np.random.default_rng(0), GaussianFamily(1e-5)
    runs = [guessed(rng, 2.0, 400, 0.25) for _ in range(20)]
    new = np.mean([family.epsilon(one_run_bound(400, *run, family)) for run in runs])
    old = np.mean([binomial_epsilon(400, *run, 1e-5) for run in runs])
    assert new > 1.4 * old and new < family.epsilon(2.0)


def test_noise_that_is_too_small_is_found_out():
    """Answers at mu = 4 that are claimed to be at 1."""
    family = GaussianFamily(1e-5)
    run = guessed(np.random.default_rng(0), 4.0, 400, 0.25)
    assert one_run_bound(400, *run, family) > 1.0
    assert is_refuted(400, *run, family.curve(np.asarray(1.0)), 0.01)
    assert not is_refuted(400, *run, family.curve(np.asarray(4.0)), 0.5)


def test_lower_bound_of_equal_and_of_disjoint_results():
    same = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    assert epsilon_lower_bound(same, same.flip(0), 1e-3) < 0.1
    assert epsilon_lower_bound(same, same + 100, 1e-3) > 6
    with pytest.raises(ValueError, match=r'got 2 and 9'):
        epsilon_lower_bound(torch.zeros(2), torch.zeros(9), 0.1)
