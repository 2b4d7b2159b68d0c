r"""A privacy budget with its unit, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

from scipy.optimize import brentq
from scipy.stats import norm

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.privacy.units import check_unit

MUS = (1e-9, 1e4)  # search range: distance of two Gaussians in standard deviations


@dataclass(frozen=True)
class Budget:
    r"""The largest :math:`(\epsilon, \delta)` that a build may cost, and its unit.

    Args:
        epsilon (float): The bound of the logarithm of the ratio between the
            probabilities of any result with and without one unit.
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
        r"""The cost :math:`\rho` of one Gaussian mechanism that spends the whole
        budget, by the exact formula of Balle and Wang (2018).
        """

        def excess(log_mu: float) -> float:
            mu = math.exp(log_mu)
            above = norm.logcdf(mu / 2 - self.epsilon / mu)
            below = self.epsilon + norm.logcdf(-mu / 2 - self.epsilon / mu)
            return math.exp(above) - math.exp(below) - self.delta

        found = _root(excess, *map(math.log, MUS))
        if found is None:
            raise BudgetError(
                f'No Gaussian mechanism has epsilon = {self.epsilon:g} at '
                f'delta = {self.delta:g}: both are too small, or epsilon is too large'
            )
        return math.exp(2 * found) / 2

    def part(self, share: float) -> Budget:
        r"""The budget of a mechanism that gets a share of the concentrated cost.

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
        if found is None:  # delta alone allows a larger cost, even at epsilon = 0
            raise BudgetError(
                f'epsilon = {self.epsilon:g} is too small compared with delta = {self.delta:g} to '
                f'be divided: a share of {share:.2g} would need an epsilon below zero'
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
        r"""Checks delta against the number of rows and returns the budget.

        A delta of :math:`1 / n` would allow a mechanism to publish a random
        row unchanged, so that a larger delta is refused.

        Args:
            epsilon (float): The privacy loss.
            delta (float, optional): The failure probability. By default,
                :math:`n^{-1.1}`.
            num_rows (int): The number of rows, :math:`n`.
            unit (str, optional): The unit. (default: :obj:`"record"`)
            accept_large_delta (bool, optional): Whether to accept a delta above
                :math:`1 / n`. (default: :obj:`False`)
        """
        if delta is None:
            delta = max(num_rows, 2) ** -1.1
        budget = cls(epsilon, delta, unit)
        if delta > 1 / max(num_rows, 1) and not accept_large_delta:
            raise BudgetError(
                f"'delta' must not exceed 1 / n = {1 / num_rows:.2g} for {num_rows} rows (got "
                f'{delta:g}): such a delta allows a mechanism to publish a random row unchanged. '
                f"Use a smaller delta, or 'accept_large_delta=True' if this is intended"
            )
        return budget


def _root(increasing: Callable[[float], float], low: float, high: float) -> float | None:
    r"""The root of an increasing function, or :obj:`None` if there is none in the interval."""
    if not increasing(low) < 0 < increasing(high):
        return None
    return float(brentq(increasing, low, high))
