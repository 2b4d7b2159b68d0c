r"""A privacy budget, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

from scipy.optimize import brentq
from scipy.stats import norm

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.privacy.units import check_unit

MUS = (1e-9, 1e4)  # distances of two Gaussians, in standard deviations, that are tried


@dataclass(frozen=True)
class Budget:
    r"""What may be spent, for which unit.

    Args:
        epsilon (float): How much more likely any result may become when one
            unit is left out, as a logarithm.
        delta (float): The failure probability.
        unit (str, optional): The unit. (default: :obj:`"record"`)
    """

    epsilon: float
    delta: float
    unit: str = 'record'

    def __post_init__(self) -> None:
        for name in ('epsilon', 'delta'):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise BudgetError(f"'{name}' must be a number (got {value!r})")
        if not 0 < self.epsilon < math.inf:
            raise BudgetError(f"'epsilon' must be positive and finite (got {self.epsilon!r})")
        if not 0 < self.delta < 1:
            raise BudgetError(f"'delta' must lie between 0 and 1 (got {self.delta!r})")
        check_unit(self.unit)

    @property
    def concentrated(self) -> float:
        r"""The cost :math:`\rho` of one Gaussian mechanism that spends all of it,
        by the exact formula of Balle and Wang (2018).
        """

        def excess(log_mu: float) -> float:
            mu = math.exp(log_mu)
            above = norm.logcdf(mu / 2 - self.epsilon / mu)
            below = self.epsilon + norm.logcdf(-mu / 2 - self.epsilon / mu)
            return math.exp(above) - math.exp(below) - self.delta

        found = _root(excess, *map(math.log, MUS))
        if found is None:
            raise BudgetError(
                f'No Gaussian noise that could be drawn spends epsilon = {self.epsilon:g} at '
                f'delta = {self.delta:g}: both are too small, or epsilon is too large'
            )
        return math.exp(2 * found) / 2

    def part(self, share: float) -> Budget:
        r"""What a mechanism may spend that gets a share of the concentrated cost.

        Args:
            share (float): The share, between zero and one.
        """
        if share >= 1:
            return self
        aim = math.log(share * self.concentrated)

        def excess(log_epsilon: float) -> float:
            return math.log(replace(self, epsilon=math.exp(log_epsilon)).concentrated) - aim

        top = math.log(self.epsilon)
        found = _root(excess, top - 20, top)
        if found is None:  # at epsilon = 0, delta alone pays for more
            raise BudgetError(
                f'epsilon = {self.epsilon:g} is too small beside delta = {self.delta:g} to be '
                f'divided: a part of {share:.2g} of it has no epsilon of its own'
            )
        return replace(self, epsilon=math.exp(found))

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float | None,
        num_rows: int,
        unit: str = 'record',
        accept_large_delta: bool = False,
    ) -> Budget:
        r"""The budget for data of some size, with a delta that means something.

        With :math:`\delta = 1 / n`, publishing one row as it is would be
        allowed. By default it is :math:`n^{-1.1}`.

        Args:
            epsilon (float): The privacy loss.
            delta (float, optional): The failure probability.
            num_rows (int): The number of rows, :math:`n`.
            unit (str, optional): The unit. (default: :obj:`"record"`)
            accept_large_delta (bool, optional): Whether the caller knows what
                a delta above :math:`1 / n` means. (default: :obj:`False`)
        """
        if delta is None:
            delta = max(num_rows, 2) ** -1.1
        budget = cls(epsilon, delta, unit)
        if delta > 1 / max(num_rows, 1) and not accept_large_delta:
            raise BudgetError(
                f"'delta' must not exceed 1 / n = {1 / num_rows:.2g} for {num_rows} rows (got "
                f'{delta:g}): a mechanism that publishes a random row as it is would meet it. '
                f"Use a smaller one, or 'accept_large_delta=True' if that is meant"
            )
        return budget


def _root(rises: Callable[[float], float], low: float, high: float) -> float | None:
    r"""Where a function that rises from below zero crosses it, if it does."""
    if not rises(low) < 0 < rises(high):
        return None
    return float(brentq(rises, low, high))
