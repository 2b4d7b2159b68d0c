r"""Lower bounds on the privacy loss, from the number of right guesses in one run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtrc, expit, log_ndtr, ndtr, ndtri

from torch_geometric_cgt.privacy.accounting import Budget

MAX_EPSILON = 50.0  # larger values cannot be told from certainty
MAX_MU = 40.0
NUM_STEPS, NUM_ROUNDS = 33, 4  # of the search for the largest refuted parameter

# The inverse of 1 - f, for the trade-off function f of a mechanism: the smallest probability
# without a unit of an event with the given probability with it. One value per parameter.
Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class GaussianFamily:
    r"""Gaussian differential privacy: no test tells a unit's presence better than it
    tells two normal distributions whose means are :math:`\mu` standard deviations
    apart. Any number of Gaussian mechanisms composes to one of these.

    Args:
        delta (float): The failure probability at which :math:`\mu` is
            expressed as an :math:`\epsilon`.
    """

    delta: float
    largest: float = MAX_MU

    def curve(self, mu: np.ndarray) -> Curve:
        r"""The inverse trade-off functions of some parameters."""
        return lambda y: ndtr(ndtri(np.clip(y, 0.0, 1.0)) - mu)

    def epsilon(self, mu: float) -> float:
        r"""The :math:`\epsilon` of a parameter at :obj:`delta`."""
        return gaussian_epsilon(mu, self.delta)

    def parameter(self, epsilon: float) -> float:
        r"""The inverse of :meth:`epsilon`."""
        return math.sqrt(2 * Budget(epsilon, self.delta).concentrated) if epsilon > 0 else 0.0


@dataclass(frozen=True)
class ClaimFamily:
    r""":math:`(\epsilon, \delta)`-differential privacy at one :math:`\delta`, of which
    nothing else is known.

    Args:
        delta (float, optional): The failure probability. (default: :obj:`0.0`)
    """

    delta: float = 0.0
    largest: float = MAX_EPSILON

    def curve(self, epsilon: np.ndarray) -> Curve:
        r"""The inverse trade-off functions of some parameters."""
        shrink, grow = np.exp(-epsilon), np.exp(epsilon)

        def inverse(y: np.ndarray) -> np.ndarray:
            direct = (y - self.delta) * shrink
            complement = 1 - self.delta - (1 - y) * grow
            return np.maximum(0.0, np.maximum(direct, complement))

        return inverse

    def epsilon(self, epsilon: float) -> float:
        r"""The parameter is :math:`\epsilon` itself."""
        return epsilon

    def parameter(self, epsilon: float) -> float:
        r"""The parameter is :math:`\epsilon` itself."""
        return epsilon


Family = GaussianFamily | ClaimFamily


def is_refuted(
    num_canaries: int, num_guesses: int, num_correct: int, curve: Curve, level: float
) -> np.ndarray:
    r"""Whether so many correct guesses have a probability below a level if a
    mechanism has the given trade-off function (Mahloujifar, Melis and Chaudhuri,
    `"Auditing f-Differential Privacy in One Run"
    <https://arxiv.org/abs/2410.22235>`_, 2024).

    A fair coin includes or excludes each of :math:`m` canaries. An attacker who
    sees the result guesses at most :math:`r` coins. Let :math:`p_i` be the
    probability of exactly :math:`i` correct guesses. Exchanging one coin turns a
    correct guess into a wrong one, and leaves all others as they are. For a
    trade-off function :math:`f`, which is convex, averaging over coins and
    canaries gives for every :math:`i`

    .. math::
        \sum_{j > i} \frac{j}{m} p_j \leq 1 - f \Big( \sum_{j \geq i}
        \frac{r - j}{m} p_j \Big).

    If :math:`v` or more guesses are correct with probability :math:`\tau`, the
    sum of all :math:`p_i` is smallest if this mass is at :math:`v` and every
    smaller :math:`p_i` is just large enough, from :math:`v - 1` down: moving mass
    from :math:`i` to :math:`i - 1` makes all further inequalities easier. If even
    this sum exceeds one, the probability is below :math:`\tau`.

    Args:
        num_canaries (int): The number of canaries :math:`m`.
        num_guesses (int): The number of guesses :math:`r`. It must be fixed
            before it is known which of them are correct.
        num_correct (int): The number of correct guesses :math:`v`.
        curve (callable): The inverse of :math:`1 - f`, for several functions.
        level (float): The probability :math:`\tau`.
    """
    _check_counts(num_canaries, num_guesses, num_correct)
    right = np.asarray(level * num_correct / num_canaries)  # sum of j / m * p_j for j > i
    wrong = np.asarray(level * (num_guesses - num_correct) / num_canaries)  # of (r - j) / m * p_j
    for i in range(num_correct - 1, -1, -1):
        more = np.maximum(wrong, curve(right))
        right = np.minimum(2.0, right + i / (num_guesses - i) * (more - wrong))
        wrong = np.minimum(2.0, more)  # beyond one, it is refuted anyway
    return np.asarray(right + wrong > num_guesses / num_canaries * (1 + 1e-12))


def one_run_bound(
    num_canaries: int,
    num_guesses: int,
    num_correct: int,
    family: Family,
    confidence: float = 0.95,
) -> float:
    r"""The largest parameter of a family that so many correct guesses refute; zero
    if they refute none.

    :meth:`is_refuted` and :meth:`binomial_p_value` both bound the probability of
    the same event from above. The smaller one counts, so that the bound is never
    below that of :meth:`binomial_epsilon`.

    Args:
        num_canaries (int): The number of canaries.
        num_guesses (int): The number of guesses. It must be fixed before it is
            known which of them are correct.
        num_correct (int): The number of correct guesses.
        family (GaussianFamily or ClaimFamily): The form of the guarantee.
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.95`)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must lie between 0 and 1 (got {confidence})")
    binomial = binomial_epsilon(num_canaries, num_guesses, num_correct, family.delta, confidence)
    known = family.parameter(min(binomial, family.epsilon(family.largest)))
    low, high = 0.0, family.largest
    for _ in range(NUM_ROUNDS):
        tried = np.linspace(low, high, NUM_STEPS)
        curve = family.curve(tried)
        refuted = is_refuted(num_canaries, num_guesses, num_correct, curve, 1 - confidence)
        last = int(np.flatnonzero(~refuted)[0]) if not refuted.all() else NUM_STEPS
        if last == 0:
            return known
        low, high = float(tried[last - 1]), float(tried[min(last, NUM_STEPS - 1)])
    return max(low, known)


def binomial_p_value(
    num_canaries: int, num_guesses: int, num_correct: int, epsilon: float, delta: float = 0.0
) -> float:
    r"""An upper bound on the probability of so many correct guesses if a
    mechanism is :math:`(\epsilon, \delta)`-differentially private (Steinke,
    Nasr and Jagielski, `"Privacy Auditing with One (1) Training Run"
    <https://arxiv.org/abs/2305.08846>`_, 2023).

    With :math:`W` binomial of :math:`r` trials and the probability
    :math:`e^\epsilon / (1 + e^\epsilon)`,

    .. math::
        P(v \text{ or more}) \leq P(W \geq v) + 2 m \delta
        \max_{1 \leq i \leq v} \frac{P(v - i \leq W < v)}{i}.

    Args:
        num_canaries (int): The number of canaries :math:`m`.
        num_guesses (int): The number of guesses :math:`r`.
        num_correct (int): The number of correct guesses :math:`v`.
        epsilon (float): The privacy loss :math:`\epsilon` to test.
        delta (float, optional): Its failure probability :math:`\delta`.
            (default: :obj:`0.0`)
    """
    _check_counts(num_canaries, num_guesses, num_correct)
    q = float(expit(epsilon))
    p_value = float(bdtrc(num_correct - 1, num_guesses, q))  # P(W >= v)
    if delta > 0 and num_correct > 0:
        step = np.arange(1, num_correct + 1)
        mass = bdtrc(num_correct - step - 1, num_guesses, q) - p_value
        p_value += 2 * num_canaries * delta * float((mass / step).max())
    return min(1.0, p_value)


def binomial_epsilon(
    num_canaries: int,
    num_guesses: int,
    num_correct: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    r"""The largest :math:`\epsilon` that so many correct guesses refute by
    :meth:`binomial_p_value`.

    Args:
        num_canaries (int): The number of canaries.
        num_guesses (int): The number of guesses.
        num_correct (int): The number of correct guesses.
        delta (float, optional): The failure probability. (default: :obj:`0.0`)
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.95`)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must lie between 0 and 1 (got {confidence})")
    if not 0 <= delta < 1:
        raise ValueError(f"'delta' must lie in [0, 1) (got {delta})")

    def is_refuted(epsilon: float) -> bool:
        p_value = binomial_p_value(num_canaries, num_guesses, num_correct, epsilon, delta)
        return p_value < 1 - confidence

    low, high = 0.0, MAX_EPSILON
    if not is_refuted(low):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def _check_counts(num_canaries: int, num_guesses: int, num_correct: int) -> None:
    if not 0 <= num_correct <= num_guesses <= num_canaries:
        raise ValueError(
            f'Expected at most as many correct guesses as guesses and as many guesses as canaries '
            f'(got {num_correct}, {num_guesses} and {num_canaries})'
        )


def gaussian_epsilon(mu: float, delta: float) -> float:
    r"""The :math:`\epsilon` of Gaussian differential privacy at some
    :math:`\delta`, by the exact formula of Balle and Wang (2018).

    Args:
        mu (float): The distance of the two distributions, in standard
            deviations.
        delta (float): The failure probability.
    """
    if not 0 < delta < 1:
        raise ValueError(f"'delta' must lie between 0 and 1 (got {delta})")

    def excess(epsilon: float) -> float:
        above = log_ndtr(mu / 2 - epsilon / mu)
        below = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return math.exp(above) - math.exp(below) - delta

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, mu * (mu / 2 + 40)))
