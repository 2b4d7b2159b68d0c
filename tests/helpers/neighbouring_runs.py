"""A lower bound on the privacy loss from many independent runs on neighbouring data."""

import math

import torch
from torch import Tensor

from torch_geometric_cgt.audit.estimates import proportion

NUM_THRESHOLDS = 64


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
