import math

import pytest
import torch
from scipy.stats import binom

from torch_geometric_cgt.audit.epsilon_bounds import (
    largest_bound,
    one_run_epsilon,
    one_run_p_value,
)


def test_all_guesses_right():
    # q ** 100 = 0.05, epsilon is the logit of q
    q = 0.05 ** (1 / 100)
    assert one_run_epsilon(100, 100, 100) == pytest.approx(math.log(q / (1 - q)))


def test_all_guesses_right_is_the_largest_bound():
    assert largest_bound(100, 1e-5, 0.9, 2) == one_run_epsilon(100, 100, 100, 1e-5, 0.95)


def test_the_example_of_the_paper():
    """Appendix D: m = 1000, r = 100, v = 75, delta = 1e-4 at 95 % give 0.673."""
    assert one_run_epsilon(1000, 100, 75, 1e-4) == pytest.approx(0.673, abs=5e-4)


def test_delta_term_by_hand():
    # W of 2 trials with 1/2: P(W >= 2) = 1/4; i = 1: P(W = 1) = 1/2, i = 2: P(W < 2) / 2 = 3/8
    assert one_run_p_value(4, 2, 2, 0.0, 0.01) == pytest.approx(0.25 + 2 * 4 * 0.01 * 0.5)
    assert one_run_p_value(4, 2, 2, 0.0, 0.9) == 1.0


def test_guessing_refutes_nothing():
    assert one_run_epsilon(100, 100, 50) == 0.0
    assert one_run_epsilon(100, 0, 0) == 0.0


@pytest.mark.parametrize('epsilon', [0.5, 1.0, 4.0])
def test_randomised_response_stays_below_its_epsilon(epsilon):
    rng = torch.Generator().manual_seed(0)
    q = 1 / (1 + math.exp(-epsilon))
    right = torch.rand(400, 500, generator=rng) < q  # 400 runs of 500 canaries
    bounds = torch.tensor([one_run_epsilon(500, 500, int(n)) for n in right.sum(dim=1)])
    assert float((bounds <= epsilon).double().mean()) >= 0.95
    assert float(bounds.median()) > 0.6 * epsilon  # and is not trivially small


def test_a_response_that_fails_with_delta():
    """With probability delta a coin is shown as it is."""
    rng, epsilon, delta, m = torch.Generator().manual_seed(1), 1.0, 0.02, 300
    q = delta + (1 - delta) / (1 + math.exp(-epsilon))
    right = (torch.rand(200, m, generator=rng) < q).sum(dim=1)
    bounds = torch.tensor([one_run_epsilon(m, m, int(n), delta) for n in right])
    assert float((bounds <= epsilon).double().mean()) >= 0.95
    for n in right[:5].tolist():  # the term of delta costs something
        assert one_run_epsilon(m, m, n, delta) <= one_run_epsilon(m, m, n)


def test_a_bound_fails_where_the_claim_is_too_small():
    q = 1 / (1 + math.exp(-3.0))
    typical = int(binom(500, q).median())
    assert one_run_epsilon(500, 500, typical) > 1.0


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
        one_run_epsilon(*arguments)
