r"""Lower bounds on epsilon: from one run with canaries, or from many runs on neighbouring data."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import bdtrc, expit
from torch import Tensor

from torch_geometric_cgt.audit.estimates import proportion

MAX_EPSILON = 50.0  # larger values cannot be told from certainty
NUM_STEPS = 60  # of the bisection
NUM_BOUNDS = 16  # of a canary audit: scores times numbers of guesses
NUM_THRESHOLDS = 64


def one_run_p_value(
    num_canaries: int, num_guesses: int, num_correct: int, epsilon: float, delta: float = 0.0
) -> float:
    r"""An upper bound on the probability of so many correct guesses if a
    mechanism is :math:`(\epsilon, \delta)`-differentially private (Steinke,
    Nasr and Jagielski, `"Privacy Auditing with One (1) Training Run"
    <https://arxiv.org/abs/2305.08846>`_, 2023).

    A fair coin includes or excludes each of :math:`m` canaries. An attacker
    who sees the result guesses :math:`r` of the coins, :math:`v` of them
    correctly. With :math:`W` binomial of :math:`r` trials and the probability
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
    r"""The largest :math:`\epsilon` that so many correct guesses refute: with
    the given confidence, the mechanism is not :math:`(\epsilon,
    \delta)`-differentially private.

    Args:
        num_canaries (int): The number of canaries.
        num_guesses (int): The number of guesses. It must be fixed before it is
            known which of them are correct.
        num_correct (int): The number of correct guesses.
        delta (float, optional): The claimed failure probability.
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


def largest_bound(
    num_canaries: int, delta: float, confidence: float = 0.95, num_bounds: int = NUM_BOUNDS
) -> float:
    r"""The lower bound on epsilon if all canaries were guessed correctly.

    Args:
        num_canaries (int): The number of canaries.
        delta (float): The failure probability.
        confidence (float, optional): The probability that all bounds hold
            together. (default: :obj:`0.95`)
        num_bounds (int, optional): The number of bounds. (default: :obj:`16`)
    """
    each = 1 - (1 - confidence) / num_bounds
    return one_run_epsilon(num_canaries, num_canaries, num_canaries, delta, each)


def epsilon_lower_bound(
    first: Tensor, second: Tensor, delta: float, confidence: float = 0.999
) -> float:
    r"""An :math:`\epsilon` for which a mechanism is not :math:`(\epsilon,
    \delta)`-differentially private, with the given confidence.

    A differentially private mechanism satisfies :math:`P(S) \leq e^\epsilon
    Q(S) + \delta` for every set of results :math:`S`. The sets that are tried
    are those above or below a threshold on a score. The first half of the
    results selects the threshold. On the second half, both probabilities are
    bounded by exact intervals (Clopper and Pearson, 1934).

    Args:
        first (torch.Tensor): The scores of independent results on some data,
            ``[n]``.
        second (torch.Tensor): The scores of results on neighbouring data,
            ``[m]``.
        delta (float): The claimed failure probability.
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.999`)
    """
    if min(first.numel(), second.numel()) < 4:
        raise ValueError(
            f'A bound needs at least 4 results on each of both data sets '
            f'(got {first.numel()} and {second.numel()})'
        )
    best, found = -math.inf, 0.0
    halves = [(x[: x.numel() // 2], x[x.numel() // 2 :]) for x in (first, second)]
    try_on, test_on = [half[0] for half in halves], [half[1] for half in halves]
    levels = torch.linspace(0, 1, NUM_THRESHOLDS + 2, dtype=torch.double)[1:-1]
    tails = torch.logspace(-4, -2, 8, dtype=torch.double)
    both = torch.cat(try_on).double().sort().values
    places = torch.cat([levels, tails, 1 - tails]) * (both.numel() - 1)
    for threshold in both[places.long()].unique():
        for sign in (1, -1):
            for p, q in ((0, 1), (1, 0)):
                guess = _bound(try_on[p], try_on[q], threshold, sign, delta, confidence)
                if guess > best:
                    best = guess
                    found = _bound(test_on[p], test_on[q], threshold, sign, delta, confidence)
    return max(0.0, found)


def _bound(
    p: Tensor, q: Tensor, threshold: Tensor, sign: int, delta: float, confidence: float
) -> float:
    hits = [int((sign * x >= sign * threshold).sum()) for x in (p, q)]
    low = proportion(hits[0], p.numel(), confidence).low
    high = proportion(hits[1], q.numel(), confidence).high
    return math.log((low - delta) / high) if low > delta else -math.inf
