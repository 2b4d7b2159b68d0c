r"""The input of an accountant: mechanisms, and the grid to which their losses are rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric_cgt.privacy.noise import Noise, SampledGaussian

INTERVAL = 1e-3  # grid of privacy losses; losses are rounded up to it
MIXTURE_INTERVAL = 4e-3  # grid for mixtures, which are slow on a finer grid
MANY_LOSSES = 30.0  # the grid grows in proportion to epsilons above this one
MOST_LOSSES = 9_000.0  # losses of one step of DP-SGD with a group, see mixture_losses()
COARSEST = 1.0  # grid for the sake of that number
FAR = 10.0  # standard deviations, beyond which an accountant cuts distributions off
TOGETHER = 50.0  # members of a group that double the time for a privacy loss


@dataclass(frozen=True)
class Loss:
    r"""The input of an accountant for one mechanism.

    Args:
        noise (Noise): The noise.
        sensitivity (float): The largest change of the vector when one row is
            removed.
        group (int, optional): The number of rows that are removed together.
            (default: :obj:`1`)
        count (int, optional): The number of runs. (default: :obj:`1`)
    """

    noise: Noise
    sensitivity: float
    group: int = 1
    count: int = 1

    @property
    def shift(self) -> float:
        r"""The largest change of the vector when all rows of the group are removed."""
        return self.group * self.sensitivity


def loss_interval(losses: Sequence[Loss], delta: float) -> float:
    r"""The grid of privacy losses: finer than the digits on a card, and coarse enough to be
    fast. A step of DP-SGD has at most :obj:`MOST_LOSSES` losses on it, unless a single step
    costs an epsilon of hundreds. So a ledger that is written can also be read within
    :obj:`~torch_geometric_cgt.utils.limits.MAX_MIXTURES`.
    """
    rho = sum(
        loss.count * loss.group**2 * loss.noise.concentrated(loss.sensitivity) for loss in losses
    )
    epsilon = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    sampled = [(x.noise, x.group) for x in losses if isinstance(x.noise, SampledGaussian)]
    mixtures = [(noise, group) for noise, group in sampled if group > 1]
    grid = (MIXTURE_INTERVAL if mixtures else INTERVAL) * max(1.0, epsilon / MANY_LOSSES)
    wanted = max((mixture_losses(*mixture, MOST_LOSSES) for mixture in mixtures), default=0.0)
    return max(grid, min(wanted, COARSEST))


def mixture_losses(noise: SampledGaussian, group: int, interval: float) -> float:
    r"""The number of privacy losses that an accountant computes for one step of
    DP-SGD with a group. Each of them takes longer if many members of the group can
    be drawn together. It is the length of a range, divided by the interval; so
    the interval that gives a number of losses is found by dividing by that number.

    Args:
        noise (SampledGaussian): The noise.
        group (int): The number of rows that change together.
        interval (float): The grid of privacy losses.
    """
    if group == 1:
        return 0.0
    drawn = group * noise.sampling_probability
    together = min(group, drawn + FAR * math.sqrt(drawn) + FAR)
    shift = group / noise.noise_multiplier
    return (shift**2 / 2 + FAR * shift) / interval * (1 + together / TOGETHER)
