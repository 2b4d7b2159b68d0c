r"""How well scores tell members from others, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.stats import norm
from torch import Tensor

from torch_geometric_cgt.privacy.intervals import Estimate, proportion


@dataclass(frozen=True)
class TruePositives:
    r"""The shares of a group above a threshold that few of all others are above.

    Args:
        share (Estimate): The share of members of the group.
        others (Estimate): The share of others of the group, which is not that
            of all others: a group may have higher scores, members or not. What
            differential privacy allows members follows from this one.
    """

    share: Estimate
    others: Estimate


def area(member: Tensor, other: Tensor, confidence: float = 0.95) -> Estimate:
    r"""The area under the curve: the probability that a member has a higher
    score than another, ties counted as one half (DeLong et al., 1988).

    Args:
        member (torch.Tensor): The scores of members, ``[n]``.
        other (torch.Tensor): The scores of others, ``[m]``.
        confidence (float, optional): The probability that the interval holds
            the area. (default: :obj:`0.95`)
    """
    above = _place(member.double(), other.double())
    below = 1 - _place(other.double(), member.double())
    value = float(above.mean())
    error = math.sqrt(_variance(above) + _variance(below))
    reach = float(norm.ppf((1 + confidence) / 2)) * error
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))


def threshold_of(other: Tensor, false_positives: float) -> float | None:
    r"""The score that a given share of others exceeds at most; :obj:`None` where
    there are too few others to set one.

    Args:
        other (torch.Tensor): The scores of all others, ``[m]``.
        false_positives (float): The share of others above the threshold.
    """
    if not has_threshold(other.numel(), false_positives):
        return None
    allowed = int(false_positives * other.numel() + 1e-9)
    return float(other.sort(descending=True).values[allowed])


def true_positives(
    member: Tensor, other: Tensor, threshold: float, confidence: float = 0.95
) -> TruePositives:
    r"""The shares of members and of others above a threshold, with exact intervals.

    Args:
        member (torch.Tensor): The scores of members of a group, ``[n]``.
        other (torch.Tensor): The scores of others of that group, ``[m]``.
        threshold (float): The threshold, see :meth:`threshold_of`.
        confidence (float, optional): The probability that an interval holds.
            (default: :obj:`0.95`)
    """

    def share(score: Tensor) -> Estimate:
        return proportion(int((score > threshold).sum()), score.numel(), confidence)

    return TruePositives(share(member), share(other))


def has_threshold(num_others: int, false_positives: float) -> bool:
    r"""Whether there are enough others to say which score so few of them exceed."""
    return false_positives * num_others + 1e-9 >= 1


def curve(member: Tensor, other: Tensor, num_points: int = 200) -> list[tuple[float, float]]:
    r"""Shares of others and of members above falling thresholds."""
    ordered = other.sort(descending=True).values
    exponent = torch.linspace(0, 1, num_points, dtype=torch.double)
    rank = (other.numel() ** exponent).long().unique() - 1  # as many points for rare errors
    points = [(0.0, float((member > ordered[0]).double().mean()))]
    for i in rank.tolist():
        high = ordered[i]
        shares = [float((x >= high).double().mean()) for x in (other, member)]
        points.append((shares[0], shares[1]))
    return [*points, (1.0, 1.0)]


def _place(x: Tensor, y: Tensor) -> Tensor:
    r"""The share of :obj:`y` below each of :obj:`x`, ties counted as one half."""
    ordered = y.sort().values
    low = torch.searchsorted(ordered, x)
    high = torch.searchsorted(ordered, x, right=True)
    return (low + high).double() / (2 * y.numel())


def _variance(x: Tensor) -> float:
    r"""Of the mean."""
    return float(x.var()) / x.numel() if x.numel() > 1 else 0.25
