r"""Estimates with confidence intervals: shares, their differences, and ROC curves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.stats import beta, norm
from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    r"""A number with its confidence interval."""

    value: float
    low: float
    high: float


def proportion(hits: int, total: int, confidence: float = 0.95) -> Estimate:
    r"""A share with its exact interval (Clopper and Pearson, 1934).

    Args:
        hits (int): The number of hits.
        total (int): The number of trials.
        confidence (float, optional): The probability that the interval covers
            the share. (default: :obj:`0.95`)
    """
    if not 0 <= hits <= total or total < 1:
        raise ValueError(
            f'A share needs at least one trial, and no more hits (got {hits} of {total})'
        )
    error = (1 - confidence) / 2
    low = float(beta.ppf(error, hits, total - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - error, hits + 1, total - hits)) if hits < total else 1.0
    return Estimate(hits / total, low, high)


def difference(
    first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95
) -> Estimate:
    r"""The difference of two shares with the interval of Newcombe (1998).

    Args:
        first (tuple[int, int]): The hits and the trials of the first share.
        second (tuple[int, int]): The hits and the trials of the second share.
        confidence (float, optional): The probability that the interval covers
            the difference. (default: :obj:`0.95`)
    """
    z = float(norm.ppf((1 + confidence) / 2))
    (p, low_p, high_p), (q, low_q, high_q) = (_wilson(*pair, z) for pair in (first, second))
    low = math.hypot(p - low_p, high_q - q)
    high = math.hypot(high_p - p, q - low_q)
    return Estimate(p - q, max(-1.0, p - q - low), min(1.0, p - q + high))


def _wilson(hits: int, total: int, z: float) -> tuple[float, float, float]:
    r"""A share and the ends of its Wilson interval."""
    p = hits / total
    centre = (p + z * z / (2 * total)) / (1 + z * z / total)
    reach = z / (1 + z * z / total) * math.sqrt(p * (1 - p) / total + (z / (2 * total)) ** 2)
    return p, centre - reach, centre + reach


def area(member: Tensor, other: Tensor, confidence: float = 0.95) -> Estimate:
    r"""The area under the ROC curve: the probability that a member has a higher
    score than a non-member, where ties count one half (DeLong et al., 1988).

    Args:
        member (torch.Tensor): The scores of members, ``[n]``.
        other (torch.Tensor): The scores of others, ``[m]``.
        confidence (float, optional): The probability that the interval covers
            the area. (default: :obj:`0.95`)
    """
    above = _share_below(member.double(), other.double())
    below = 1 - _share_below(other.double(), member.double())
    value = float(above.mean())
    error = math.sqrt(_variance_of_mean(above) + _variance_of_mean(below))
    reach = float(norm.ppf((1 + confidence) / 2)) * error
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))


@dataclass(frozen=True)
class TruePositives:
    r"""The shares of a group above a threshold that few of all others exceed.

    Args:
        share (Estimate): The share of the members of the group.
        others (Estimate): The share of the others of the same group. It can
            differ from the share of all others, since a group may have higher
            scores whether its nodes are members or not. It determines how many
            true positives differential privacy allows.
    """

    share: Estimate
    others: Estimate


def true_positives(
    member: Tensor, other: Tensor, threshold: float, confidence: float = 0.95
) -> TruePositives:
    r"""The shares of members and of others above a threshold, with exact intervals.

    Args:
        member (torch.Tensor): The scores of the members of a group, ``[n]``.
        other (torch.Tensor): The scores of the others of that group, ``[m]``.
        threshold (float): The threshold, see :meth:`threshold_of`.
        confidence (float, optional): The probability that an interval covers
            its share. (default: :obj:`0.95`)
    """

    def share(score: Tensor) -> Estimate:
        return proportion(int((score > threshold).sum()), score.numel(), confidence)

    return TruePositives(share(member), share(other))


def threshold_of(other: Tensor, false_positives: float) -> float | None:
    r"""The lowest score that at most a given share of others exceeds;
    :obj:`None` where there are too few others, see :meth:`has_threshold`.

    Args:
        other (torch.Tensor): The scores of all others, ``[m]``.
        false_positives (float): The share of others above the threshold.
    """
    if not has_threshold(other.numel(), false_positives):
        return None
    allowed = int(false_positives * other.numel() + 1e-9)
    return float(other.sort(descending=True).values[allowed])


def has_threshold(num_others: int, false_positives: float) -> bool:
    r"""Whether the share of false positives is at least one of the others."""
    return false_positives * num_others + 1e-9 >= 1


def curve(member: Tensor, other: Tensor, num_points: int = 200) -> list[tuple[float, float]]:
    r"""The ROC curve: the shares of others and of members above falling thresholds.

    Args:
        member (torch.Tensor): The scores of members, ``[n]``.
        other (torch.Tensor): The scores of others, ``[m]``.
        num_points (int, optional): The largest number of thresholds.
            (default: :obj:`200`)
    """
    ordered = other.sort(descending=True).values
    exponent = torch.linspace(0, 1, num_points, dtype=torch.double)
    rank = (other.numel() ** exponent).long().unique() - 1  # even on a logarithmic axis
    points = [(0.0, float((member > ordered[0]).double().mean()))]
    for i in rank.tolist():
        high = ordered[i]
        shares = [float((x >= high).double().mean()) for x in (other, member)]
        points.append((shares[0], shares[1]))
    return [*points, (1.0, 1.0)]


def _share_below(x: Tensor, y: Tensor) -> Tensor:
    r"""The share of :obj:`y` below each of :obj:`x`, where ties count one half."""
    ordered = y.sort().values
    low = torch.searchsorted(ordered, x)
    high = torch.searchsorted(ordered, x, right=True)
    return (low + high).double() / (2 * y.numel())


def _variance_of_mean(x: Tensor) -> float:
    return float(x.var()) / x.numel() if x.numel() > 1 else 0.25
