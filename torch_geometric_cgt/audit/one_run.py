r"""A lower bound on epsilon from one run with many canaries."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc, expit

MAX_EPSILON = 50.0  # more cannot be told from certainty
NUM_STEPS = 60  # of the bisection


def one_run_p_value(
    num_canaries: int, num_guesses: int, num_correct: int, epsilon: float, delta: float = 0.0
) -> float:
    r"""How likely so many correct guesses are, at most, if a mechanism is
    :math:`(\epsilon, \delta)`-differentially private (Steinke, Nasr and
    Jagielski, `"Privacy Auditing with One (1) Training Run"
    <https://arxiv.org/abs/2305.08846>`_, 2023).

    Each of :math:`m` canaries is in or out by a fair coin. Of these coins, an
    attacker who sees the result guesses :math:`r` and gets :math:`v` right.
    With :math:`W` binomial of :math:`r` trials and the probability
    :math:`e^\epsilon / (1 + e^\epsilon)`,

    .. math::
        P(v \text{ or more}) \leq P(W \geq v) + 2 m \delta
        \max_{1 \leq i \leq v} \frac{P(v - i \leq W < v)}{i}.

    Args:
        num_canaries (int): The number of canaries :math:`m`.
        num_guesses (int): The number of guesses :math:`r`.
        num_correct (int): The number of correct guesses :math:`v`.
        epsilon (float): The privacy loss that is put to the test.
        delta (float, optional): Its failure probability.
            (default: :obj:`0.0`)
    """
    if not 0 <= num_correct <= num_guesses <= num_canaries:
        raise ValueError(
            f'Expected at most as many correct guesses as guesses and as many guesses as canaries '
            f'(got {num_correct}, {num_guesses} and {num_canaries})'
        )
    q = float(expit(epsilon))
    p_value = float(bdtrc(num_correct - 1, num_guesses, q))  # P(W >= v)
    if delta > 0 and num_correct > 0:
        step = np.arange(1, num_correct + 1)
        mass = bdtrc(num_correct - step - 1, num_guesses, q) - p_value
        p_value += 2 * num_canaries * delta * float((mass / step).max())
    return min(1.0, p_value)


def one_run_epsilon(
    num_canaries: int,
    num_guesses: int,
    num_correct: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    r"""The largest :math:`\epsilon` that so many correct guesses speak against:
    the mechanism is not :math:`(\epsilon, \delta)`-differentially private.

    Args:
        num_canaries (int): The number of canaries.
        num_guesses (int): The number of guesses; it must not be chosen by
            looking at which of them are right.
        num_correct (int): The number of correct guesses.
        delta (float, optional): The failure probability that is claimed.
            (default: :obj:`0.0`)
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.95`)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must lie between 0 and 1 (got {confidence})")
    if not 0 <= delta < 1:
        raise ValueError(f"'delta' must lie in [0, 1) (got {delta})")

    def is_refuted(epsilon: float) -> bool:
        p_value = one_run_p_value(num_canaries, num_guesses, num_correct, epsilon, delta)
        return p_value < 1 - confidence

    low, high = 0.0, MAX_EPSILON
    if not is_refuted(low):
        return 0.0
    for _ in range(NUM_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low
