r"""Privacy budgets, and the composed cost of mechanisms, computed with :obj:`dp-accounting`."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from torch_geometric_cgt.errors import BudgetError, UnsupportedError
from torch_geometric_cgt.privacy.entries import INTERVAL, Loss, loss_interval
from torch_geometric_cgt.privacy.noise import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.units import check_unit

MUS = (1e-9, 1e4)  # search range: distance of two Gaussians in standard deviations
GAUSSIAN_MARGIN = 1e-5  # relative and absolute margin of the exact formula for Gaussian noise
FALLBACK = 1e-3  # share of delta for mechanisms without a privacy loss distribution
TAIL = 1e-16  # tail probability of a binomial distribution that is moved to its maximum


@dataclass(frozen=True)
class Budget:
    r"""The largest :math:`(\epsilon, \delta)` that a build may cost, and its unit.

    Args:
        epsilon (float): The bound of the logarithm of the ratio between the
            probabilities of any result with and without one unit.
        delta (float): The failure probability.
        unit (str, optional): The unit. (default: :obj:`"node"`)
    """

    epsilon: float
    delta: float
    unit: str = 'node'

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
        unit: str = 'node',
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
            unit (str, optional): The unit. (default: :obj:`"node"`)
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


def epsilon_of(losses: Sequence[Loss], delta: float, coarseness: float = 1.0) -> tuple[float, str]:
    r"""The smallest :math:`\epsilon` that can be proven for all mechanisms
    together, and the accountant that proves it.

    Composed privacy loss distributions (:obj:`"pld"`) are tight. If the
    distribution of a mechanism is not known (see :meth:`privacy_loss`), the
    bound from Rényi divergences (:obj:`"rdp"`) is computed as well. Both bounds
    are valid, and the smaller one is returned.

    Args:
        losses (list[Loss]): The mechanisms. Each may depend on the results
            of the earlier ones.
        delta (float): The failure probability.
        coarseness (float, optional): The factor of the grid of privacy losses.
            A coarser grid is faster and never underestimates :math:`\epsilon`.
            (default: :obj:`1.0`)
    """
    losses = [loss for loss in losses if loss.shift > 0]
    if not losses:
        return 0.0, 'none'
    if _are_gaussian(losses):
        return gaussian_epsilon(_distance(losses), delta), 'gaussian'
    pld = privacy_loss(losses, delta, coarseness).get_epsilon_for_delta(delta)
    if all(_is_tight(loss) for loss in losses):
        return float(pld), 'pld'
    rdp = _renyi_epsilon(losses, delta)
    return (float(pld), 'pld') if pld <= rdp else (float(rdp), 'rdp')


def gaussian_epsilon(distance: float, delta: float) -> float:
    r"""The :math:`\epsilon` of Gaussian mechanisms together, by the exact formula of
    Balle and Wang (2018). It is rounded up by :obj:`GAUSSIAN_MARGIN`, which is
    more than the grid of the noise adds.

    Args:
        distance (float): The distance of the results, in standard deviations.
        delta (float): The failure probability.
    """

    def excess(epsilon: float) -> float:
        above = norm.logcdf(distance / 2 - epsilon / distance)
        below = epsilon + norm.logcdf(-distance / 2 - epsilon / distance)
        return math.exp(above) - math.exp(min(below, above)) - delta

    if excess(0.0) <= 0:
        return GAUSSIAN_MARGIN
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-10)) * (1 + GAUSSIAN_MARGIN) + GAUSSIAN_MARGIN


def _are_gaussian(losses: Sequence[Loss]) -> bool:
    return all(type(loss.noise) is Gaussian for loss in losses)


def _distance(losses: Sequence[Loss]) -> float:
    r"""The distance of the results of Gaussian mechanisms, in standard deviations."""
    squares = sum(loss.count * loss.noise.concentrated(loss.shift) for loss in losses)
    return math.sqrt(2 * squares)


def substitution_epsilon_of(
    losses: Sequence[Loss], delta: float, coarseness: float = 1.0
) -> tuple[float, str]:
    r"""Like :meth:`epsilon_of`, but a unit is replaced by another one instead
    of removed. For Gaussian noise, the results move twice as far.

    Both datasets are neighbours of the dataset without the unit. By the
    triangle inequality of the hockey-stick divergence, :math:`\delta(\epsilon)
    \leq \min_{\epsilon_1} \delta_0(\epsilon_1) + e^{\epsilon_1}
    \delta_0(\epsilon - \epsilon_1)`, where :math:`\delta_0` holds for removal.

    Args:
        losses (list[Loss]): The mechanisms.
        delta (float): The failure probability.
        coarseness (float, optional): The factor of the grid of privacy losses.
            (default: :obj:`1.0`)
    """
    losses = [loss for loss in losses if loss.shift > 0]
    if not losses:
        return 0.0, 'none'
    if _are_gaussian(losses):
        return gaussian_epsilon(2 * _distance(losses), delta), 'gaussian'
    pld = privacy_loss(losses, delta, coarseness)
    high = max(1e-3, 2 * float(pld.get_epsilon_for_delta(delta / 2)))
    while high <= 500:  # exp(high) overflows soon
        step = INTERVAL * max(1.0, high / 10)
        grid = np.arange(math.ceil(high / step) + 1) * step
        found = _smallest_sum(grid, pld.get_delta_for_epsilon(grid), delta)
        if found is not None:
            return found, 'pld'
        high *= 1.5
    return math.inf, 'pld'


def _smallest_sum(grid: Any, bound: Any, delta: float) -> float | None:
    r"""The smallest epsilon of a grid that can be divided into two numbers of the grid, such
    that the inequality of :meth:`substitution_epsilon_of` gives at most delta. The deltas of
    the whole grid are given, because each call of the accountant passes over all losses.
    """
    factor = np.exp(grid)

    def holds(place: int) -> bool:
        rest = bound[place::-1]  # of grid[place] - grid[0], grid[place] - grid[1], ...
        return bool((bound[: place + 1] + factor[: place + 1] * rest).min() <= delta)

    place = bisect_left(range(grid.size), True, key=holds)  # once it holds, it holds for all larger
    return float(grid[place]) if place < grid.size else None


def privacy_loss(losses: Sequence[Loss], delta: float, coarseness: float = 1.0) -> Any:
    r"""The composed privacy loss distribution. Losses are rounded up.

    * Gaussian noise: several Gaussian mechanisms equal one whose shift, in
      units of its noise, is the root of the sum of their squared shifts.
    * Discrete Gaussian noise with shift 1: exactly one count differs, by one,
      and the distribution is exact. For other shifts, the
      :math:`(\epsilon, \delta')` that follows from :math:`\frac{1}{2}
      (\Delta / \sigma)^2` concentrated differential privacy is used (Canonne,
      Kamath and Steinke, 2020). It holds for any number of counts.
    * DP-SGD with a group of :math:`g` records: in each step, their number in
      the batch is binomial, and the mixture of Gaussians with these shifts and
      probabilities dominates (Ganesh, "Tight Group-Level DP Guarantees for
      DP-SGD with Sampling via Mixture of Gaussians Mechanisms", 2024).

    Args:
        losses (list[Loss]): The mechanisms.
        delta (float): The failure probability at which the distribution is
            evaluated.
        coarseness (float, optional): The factor of the grid of losses.
            (default: :obj:`1.0`)
    """
    _dp_accounting()
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    grid = coarseness * loss_interval(losses, delta)
    total = pld.identity(value_discretization_interval=grid)
    squares = 0.0
    for loss in losses:
        noise, shift = loss.noise, loss.shift
        if not _is_tight(loss):
            epsilon = _renyi_epsilon([loss], FALLBACK * delta)  # includes all runs
            one = pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(epsilon, FALLBACK * delta),
                value_discretization_interval=grid,
            )
            total = total.compose(one)
            continue
        if isinstance(noise, DiscreteGaussian):
            one = pld.from_discrete_gaussian_mechanism(
                noise.sigma, value_discretization_interval=grid, use_connect_dots=True
            )
        elif isinstance(noise, Gaussian):
            squares += loss.count * (shift / noise.sigma) ** 2
            continue
        elif isinstance(noise, Laplace):
            one = pld.from_laplace_mechanism(
                noise.scale, sensitivity=shift, value_discretization_interval=grid
            )
        elif isinstance(noise, SampledGaussian):
            one = _sampled(pld, noise, loss.group, grid).self_compose(int(noise.steps))
        else:
            raise ValueError(f'There is no accountant for {noise!r}')
        total = total.compose(one.self_compose(loss.count) if loss.count > 1 else one)
    if squares > 0:
        one = pld.from_gaussian_mechanism(squares**-0.5, value_discretization_interval=grid)
        total = total.compose(one)
    return total


def _is_tight(loss: Loss) -> bool:
    r"""Whether the exact privacy loss distribution of a mechanism is known."""
    return not isinstance(loss.noise, DiscreteGaussian) or loss.shift == 1


def _sampled(pld: ModuleType, noise: SampledGaussian, group: int, grid: float) -> Any:
    r"""The privacy loss of one step of DP-SGD."""
    probability = noise.sampling_probability
    if group == 1 or probability == 1:
        return pld.from_gaussian_mechanism(
            noise.noise_multiplier,
            sensitivity=float(group),
            value_discretization_interval=grid,
            sampling_prob=probability,
        )
    from scipy.stats import binom

    number = np.arange(group + 1)
    mass = binom.pmf(number, group, probability)
    rare = (binom.sf(number - 1, group, probability) < TAIL) & (number < group)
    mass[group] += mass[rare].sum()  # an upper bound: more drawn records cost more
    number, mass = number[~rare], mass[~rare]
    return pld.from_mixture_gaussian_mechanism(
        noise.noise_multiplier,
        number.astype(float),
        mass / mass.sum(),
        value_discretization_interval=grid,
    )


def _renyi_epsilon(losses: Sequence[Loss], delta: float) -> float:
    r"""The bound from Rényi divergences; infinite if none is available."""
    dp = _dp_accounting()
    accountant = dp.rdp.RdpAccountant()
    for loss in losses:
        noise = loss.noise
        if isinstance(noise, SampledGaussian):
            if loss.group > 1:
                return math.inf
            event = dp.PoissonSampledDpEvent(
                noise.sampling_probability, dp.GaussianDpEvent(noise.noise_multiplier)
            )
            accountant.compose(event, int(noise.steps) * loss.count)
        elif isinstance(noise, Gaussian):  # the same bound holds for discrete Gaussian noise
            accountant.compose(dp.GaussianDpEvent(noise.sigma / loss.shift), loss.count)
        elif isinstance(noise, Laplace):
            accountant.compose(dp.LaplaceDpEvent(noise.scale / loss.shift), loss.count)
    return float(accountant.get_epsilon(delta))


def _dp_accounting() -> ModuleType:
    r"""Imports :obj:`dp_accounting`, or raises an error that says how to install it."""
    try:
        import dp_accounting
    except ImportError as error:
        raise UnsupportedError(
            "Differential privacy is accounted for by 'dp-accounting', which is not installed: "
            "run pip install 'torch-geometric-cgt[dp]'"
        ) from error
    return dp_accounting
