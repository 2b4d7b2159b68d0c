r"""Shares of a sample, and intervals that hold the share of what it was drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import beta, norm


@dataclass(frozen=True)
class Estimate:
    r"""A number and an interval that holds it with some confidence."""

    value: float
    low: float
    high: float


def proportion(hits: int, total: int, confidence: float = 0.95) -> Estimate:
    r"""A share with its exact interval (Clopper and Pearson, 1934).

    Args:
        hits (int): How many.
        total (int): Of how many.
        confidence (float, optional): The probability that the interval holds
            the share. (default: :obj:`0.95`)
    """
    if not 0 <= hits <= total or total < 1:
        raise ValueError(f'There is no share of {hits} of {total}')
    error = (1 - confidence) / 2
    low = float(beta.ppf(error, hits, total - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - error, hits + 1, total - hits)) if hits < total else 1.0
    return Estimate(hits / total, low, high)


def difference(
    first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95
) -> Estimate:
    r"""The difference of two shares, each given as how many of how many, with
    the interval of Newcombe (1998).
    """
    z = float(norm.ppf((1 + confidence) / 2))
    (p, low_p, high_p), (q, low_q, high_q) = (_wilson(*pair, z) for pair in (first, second))
    low = math.hypot(p - low_p, high_q - q)
    high = math.hypot(high_p - p, q - low_q)
    return Estimate(p - q, max(-1.0, p - q - low), min(1.0, p - q + high))


def _wilson(hits: int, total: int, z: float) -> tuple[float, float, float]:
    p = hits / total
    centre = (p + z * z / (2 * total)) / (1 + z * z / total)
    reach = z / (1 + z * z / total) * math.sqrt(p * (1 - p) / total + (z / (2 * total)) ** 2)
    return p, centre - reach, centre + reach
