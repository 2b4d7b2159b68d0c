r"""What canaries can refute at all, and at which delta they can refute most."""

from __future__ import annotations

from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.one_run import one_run_epsilon

DELTAS = tuple(10.0**-i for i in range(3, 10))
NUM_BOUNDS = 16  # of an audit: scores times numbers of guesses


def largest_bound(
    num_canaries: int, delta: float, confidence: float = 0.95, num_bounds: int = NUM_BOUNDS
) -> float:
    r"""The lower bound on epsilon if all canaries were guessed right.

    Args:
        num_canaries (int): The number of canaries.
        delta (float): The failure probability.
        confidence (float, optional): The probability that all bounds hold
            together. (default: :obj:`0.95`)
        num_bounds (int, optional): How many there are. (default: :obj:`16`)
    """
    each = 1 - (1 - confidence) / num_bounds
    return one_run_epsilon(num_canaries, num_canaries, num_canaries, delta, each)


def sharpest(limit: Limit, num_canaries: int, confidence: float = 0.95) -> Limit:
    r"""The same claim at the delta where the largest possible bound exceeds it
    by most, or falls short of it by least.

    Mechanisms with noise have an epsilon for every delta. At the delta of a
    card, which is close to :math:`1 / n`, many canaries show next to nothing: one
    of them may be given away without breaking the promise. At a smaller delta
    the claim is somewhat larger, and the bound can be much larger. The choice
    looks at public numbers alone.

    Args:
        limit (Limit): The claim. Without a ledger it has one delta only.
        num_canaries (int): The number of canaries.
        confidence (float, optional): That of the audit.
            (default: :obj:`0.95`)
    """
    if limit.ledger is None:
        return limit
    known = [limit, *(limit.at(delta) for delta in DELTAS if delta < limit.delta)]
    return max(known, key=lambda x: largest_bound(num_canaries, x.delta, confidence) - x.epsilon)
