r"""The composed cost of several mechanisms, computed with :obj:`dp-accounting`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.privacy.noise import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Noise,
    SampledGaussian,
)

INTERVAL = 1e-3  # grid of privacy losses; losses are rounded up to it
MIXTURE_INTERVAL = 4e-3  # grid for mixtures, which are slow on a finer grid
MANY_LOSSES = 30.0  # the grid grows in proportion to epsilons above this one
FALLBACK = 1e-3  # share of delta for mechanisms without a privacy loss distribution
TAIL = 1e-16  # tail probability of a binomial distribution that is moved to its maximum


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
    pld = privacy_loss(losses, delta, coarseness).get_epsilon_for_delta(delta)
    if all(_is_tight(loss) for loss in losses):
        return float(pld), 'pld'
    rdp = _renyi_epsilon(losses, delta)
    return (float(pld), 'pld') if pld <= rdp else (float(rdp), 'rdp')


def substitution_epsilon_of(losses: Sequence[Loss], delta: float) -> tuple[float, str]:
    r"""Like :meth:`epsilon_of`, but a unit is replaced by another one instead
    of removed.

    Both datasets are neighbours of the dataset without the unit. By the
    triangle inequality of the hockey-stick divergence, :math:`\delta(\epsilon)
    \leq \min_{\epsilon_1} \delta_0(\epsilon_1) + e^{\epsilon_1}
    \delta_0(\epsilon - \epsilon_1)`, where :math:`\delta_0` holds for removal.

    Args:
        losses (list[Loss]): The mechanisms.
        delta (float): The failure probability.
    """
    losses = [loss for loss in losses if loss.shift > 0]
    if not losses:
        return 0.0, 'none'
    pld = privacy_loss(losses, delta)

    def holds(epsilon: float) -> bool:
        first = np.linspace(0.0, epsilon, 401)
        bound = pld.get_delta_for_epsilon(first)
        return bool((bound + np.exp(first) * bound[::-1]).min() <= delta)

    high = max(1e-3, 2 * float(pld.get_epsilon_for_delta(delta / 2)))
    while not holds(high):
        high *= 1.5
        if high > 500:  # exp(high) overflows soon
            return math.inf, 'pld'
    low = 0.0
    while high - low > INTERVAL * max(1.0, high / 10):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high, 'pld'


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

    grid = coarseness * _interval(losses, delta)
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


def _interval(losses: Sequence[Loss], delta: float) -> float:
    r"""The grid of privacy losses: finer than the digits on a card, and coarse enough to be
    fast.
    """
    rho = sum(
        loss.count * loss.group**2 * loss.noise.concentrated(loss.sensitivity) for loss in losses
    )
    epsilon = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    mixture = any(isinstance(loss.noise, SampledGaussian) and loss.group > 1 for loss in losses)
    grid = MIXTURE_INTERVAL if mixture else INTERVAL
    return grid * max(1.0, epsilon / MANY_LOSSES)


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
