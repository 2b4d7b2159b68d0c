r"""The kinds of noise that a ledger can account for, and how they are sampled."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

# (largest sigma, steps per unit) of discrete noise. With these, 64 bits are enough to sample it.
STEPS = ((16, 256), (256, 16), (1 << 25, 1))

N = TypeVar('N', bound='Noise')
BITS = 62  # of each random number, so that the products in this module stay below 2^63
FARTHEST = 64  # largest proposal, in its scale; acceptance beyond has probability exp(-1984)
BLOCK = 1 << 20  # proposals per block


@dataclass(frozen=True)
class Noise(ABC):
    r"""The base class of all kinds of noise."""

    kind: ClassVar[str] = ''

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"'{name}' must be positive and finite (got {value!r})")

    @abstractmethod
    def concentrated(self, sensitivity: float) -> float:
        r"""The cost of one run in zero-concentrated differential privacy,
        :math:`\rho`. It is used to divide budgets and to start searches;
        accountants compute the totals.
        """

    @abstractmethod
    def at_cost(self: N, rho: float, sensitivity: float) -> N:
        r"""The same kind of noise with the width that has cost :math:`\rho`."""

    @abstractmethod
    def of_width(self: N, width: float, sensitivity: float) -> N:
        r"""The same kind of noise with a width of :obj:`width` sensitivities."""

    def to_dict(self) -> dict[str, Any]:
        r"""The kind and the parameters, for a JSON file."""
        return {'kind': self.kind, **asdict(self)}


@dataclass(frozen=True)
class Gaussian(Noise):
    r"""Gaussian noise on a vector whose sensitivity is an :math:`L_2` norm.

    It also describes discrete Gaussian noise on a grid that is much finer than
    the noise, see :meth:`~torch_geometric_cgt.privacy.Queries.sums`.

    Args:
        sigma (float): The standard deviation of each coordinate.
    """

    sigma: float
    kind: ClassVar[str] = 'gaussian'

    def concentrated(self, sensitivity: float) -> float:
        return (sensitivity / self.sigma) ** 2 / 2

    def at_cost(self, rho: float, sensitivity: float) -> Gaussian:
        return replace(self, sigma=sensitivity / math.sqrt(2 * rho))

    def of_width(self, width: float, sensitivity: float) -> Gaussian:
        return replace(self, sigma=width * sensitivity)


@dataclass(frozen=True)
class DiscreteGaussian(Gaussian):
    r"""Integer noise with probabilities proportional to :math:`\exp(-z^2 /
    2\sigma^2)`, on a vector of counts.

    Args:
        sigma (float): The width :math:`\sigma`, see :meth:`round_sigma`.
    """

    kind: ClassVar[str] = 'discrete_gaussian'

    def at_cost(self, rho: float, sensitivity: float) -> DiscreteGaussian:
        return replace(self, sigma=round_sigma(sensitivity / math.sqrt(2 * rho)))

    def of_width(self, width: float, sensitivity: float) -> DiscreteGaussian:
        return replace(self, sigma=round_sigma(width * sensitivity))


@dataclass(frozen=True)
class Laplace(Noise):
    r"""Laplace noise on a vector whose sensitivity is an :math:`L_1` norm.

    Args:
        scale (float): The scale of each coordinate.
    """

    scale: float
    kind: ClassVar[str] = 'laplace'

    def concentrated(self, sensitivity: float) -> float:
        return (sensitivity / self.scale) ** 2 / 2

    def at_cost(self, rho: float, sensitivity: float) -> Laplace:
        return replace(self, scale=sensitivity / math.sqrt(2 * rho))

    def of_width(self, width: float, sensitivity: float) -> Laplace:
        return replace(self, scale=width * sensitivity)


@dataclass(frozen=True)
class SampledGaussian(Noise):
    r"""The noise of DP-SGD. In every step, each record is drawn independently
    with the same probability (Poisson sampling), and Gaussian noise is added to
    the sum of the clipped gradients.

    Args:
        noise_multiplier (float): The standard deviation of the noise, in
            units of the clipping norm.
        sampling_probability (float): The probability that a step draws a record.
        steps (int): The number of steps.
    """

    noise_multiplier: float
    sampling_probability: float
    steps: int
    kind: ClassVar[str] = 'dp_sgd'

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling_probability > 1:
            raise ValueError(
                f"'sampling_probability' must not exceed 1 (got {self.sampling_probability})"
            )
        if self.steps != int(self.steps):
            raise ValueError(f"'steps' must be an integer (got {self.steps!r})")

    def concentrated(self, sensitivity: float) -> float:
        # The central limit of Bu, Dong, Long and Su, "Deep Learning with Gaussian Differential
        # Privacy" (2020): mu = q sqrt(T (exp(1 / z^2) - 1)), and rho = mu^2 / 2.
        exponent = min(self.noise_multiplier**-2, 500.0)
        return self.sampling_probability**2 * self.steps * math.expm1(exponent) / 2

    def at_cost(self, rho: float, sensitivity: float) -> SampledGaussian:
        exponent = math.log1p(2 * rho / (self.sampling_probability**2 * self.steps))
        return replace(self, noise_multiplier=1 / math.sqrt(exponent))

    def of_width(self, width: float, sensitivity: float) -> SampledGaussian:
        return replace(self, noise_multiplier=width)


NOISES = {kind.kind: kind for kind in (Gaussian, DiscreteGaussian, Laplace, SampledGaussian)}


def noise_from_dict(content: dict[str, Any]) -> Noise:
    r"""The inverse of :meth:`Noise.to_dict`."""
    kind = content.get('kind')
    if kind not in NOISES:
        raise ValueError(f"'kind' must be one of {', '.join(map(repr, NOISES))} (got {kind!r})")
    return NOISES[kind](**{name: value for name, value in content.items() if name != 'kind'})


def round_sigma(sigma: float) -> float:
    r"""Rounds :obj:`sigma` up to a width that discrete Gaussian noise can be
    sampled with exactly: a multiple of 1/256 up to 16, a multiple of 1/16 up to
    256, and an integer above.
    """
    return math.ceil(sigma * sigma_steps(sigma)) / sigma_steps(sigma)


def sigma_steps(sigma: float) -> int:
    r"""The number of steps per unit of the widths near :obj:`sigma`."""
    for largest, steps in STEPS:
        if sigma <= largest:
            return steps
    raise ValueError(f"'sigma' must not exceed {STEPS[-1][0]} for discrete noise (got {sigma})")


def discrete_gaussian(size: int, sigma: float, generator: torch.Generator | None = None) -> Tensor:
    r"""Draws integers with probabilities proportional to :math:`\exp(-z^2 / 2
    \sigma^2)`, by the rejection scheme of `"The Discrete Gaussian for
    Differential Privacy" <https://arxiv.org/abs/2004.00010>`_.

    All decisions compare integers of at most 63 bits with uniform integers. The
    probabilities are therefore exact and do not depend on floating-point
    arithmetic. Two risks remain:

    * Without a generator, the bits come from the operating system. An attacker
      who knows the state of a :class:`torch.Generator` can repeat its draws.
      Its seed has 32 effective bits, which is few enough to try all of them.
      Use a generator for tests only.
    * The running time depends on the drawn numbers. An attacker who can measure
      it learns something about the noise.

    Args:
        size (int): The number of draws.
        sigma (float): The width. It must be a result of :meth:`round_sigma`.
        generator (torch.Generator, optional): The source of random bits, on
            the CPU. By default, the operating system. (default: :obj:`None`)
    """
    if not sigma > 0 or round_sigma(sigma) != sigma:
        raise ValueError(
            f"'sigma' must be positive and a width that can be sampled exactly (got {sigma!r}): "
            f"use 'round_sigma(sigma)'"
        )
    out = torch.empty(size, dtype=torch.long)
    done = 0
    while done < size:
        found = _accepted(min(2 * (size - done) + 16, BLOCK), sigma, generator)[: size - done]
        out[done : done + found.numel()] = found
        done += found.numel()
    return out


def _accepted(size: int, sigma: float, generator: torch.Generator | None) -> Tensor:
    r"""Filters discrete Laplace proposals. The accepted ones are independent and have the
    discrete Gaussian distribution.
    """
    steps = sigma_steps(sigma)
    width = round(sigma * steps)  # sigma = width / steps
    scale = -(-width // steps)  # of the proposal; any positive integer is valid
    y = _discrete_laplace(size, scale, generator)
    # Accepted with probability exp(-(|y| - sigma^2 / scale)^2 / (2 sigma^2)).
    if steps == 1:
        above, below = (y.abs() - width).square(), 2 * width**2
    else:
        above = (y.abs() * scale * steps**2 - width**2).square()
        below = 2 * width**2 * scale**2 * steps**2
    return y[_bernoulli_exp(above, below, generator)]


def _discrete_laplace(size: int, scale: int, generator: torch.Generator | None) -> Tensor:
    r"""At most :obj:`size` integers with probabilities proportional to
    :math:`\exp(-|y| / scale)`.
    """
    first = _uniform(size, scale, generator)
    first = first[_bernoulli_exp(first, scale, generator)]
    whole = torch.zeros_like(first)
    active = torch.arange(first.numel())
    while active.numel() > 0:  # counts the successes in a row of trials with probability exp(-1)
        active = active[_bernoulli_exp(torch.ones_like(active), 1, generator)]
        whole[active] += 1
    y = first + scale * whole
    negative = _uniform(y.numel(), 2, generator) == 1
    keep = ~(negative & (y == 0)) & (whole < FARTHEST)
    return torch.where(negative, -y, y)[keep]


def _bernoulli_exp(above: Tensor, below: int, generator: torch.Generator | None) -> Tensor:
    r"""True with probability :math:`\exp(-above / below)`, for non-negative integers."""
    whole = above.div(below, rounding_mode='floor')
    out = _bernoulli_exp_fraction(above - whole * below, below, generator)
    active = (out & (whole > 0)).nonzero().view(-1)
    while active.numel() > 0:  # each whole unit needs a success with probability exp(-1)
        true = _bernoulli_exp_fraction(torch.ones_like(active), 1, generator)
        out[active[~true]] = False
        active = active[true]
        whole[active] -= 1
        active = active[whole[active] > 0]
    return out


def _bernoulli_exp_fraction(above: Tensor, below: int, generator: torch.Generator | None) -> Tensor:
    r"""Like :meth:`_bernoulli_exp`, for fractions of at most one. Trial :math:`k`
    succeeds with probability :math:`above / (k \cdot below)`, and the result is
    whether the number of successes before the first failure is even.
    """
    out = torch.zeros(above.numel(), dtype=torch.bool)
    active, k = torch.arange(above.numel()), 1
    while active.numel() > 0:
        true = _uniform(active.numel(), k * below, generator) < above[active]
        out[active[~true]] = k % 2 == 1
        active, k = active[true], k + 1
    return out


def _uniform(size: int, high: int, generator: torch.Generator | None) -> Tensor:
    r"""Uniform integers in ``[0, high)``."""
    out = torch.empty(size, dtype=torch.long)
    limit = (1 << BITS) // high * high
    missing = torch.arange(size)
    while missing.numel() > 0:
        bits = _random_bits(missing.numel(), generator)
        fits = bits < limit
        out[missing[fits]] = bits[fits] % high
        missing = missing[~fits]
    return out


def _random_bits(size: int, generator: torch.Generator | None) -> Tensor:
    r"""Integers of :obj:`BITS` random bits."""
    if generator is not None:  # exactly uniform, because the bound is a power of two
        return torch.randint(1 << BITS, (size,), generator=generator)
    words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    return torch.from_numpy((words >> np.uint64(64 - BITS)).astype(np.int64))


class SystemRandom:
    r"""The methods of :class:`numpy.random.Generator` that DP-SGD needs, with
    random bits of the operating system. There is no seed and no state that an
    attacker could learn.
    """

    def random(self, size: int) -> np.ndarray:
        r"""Uniform numbers in ``[0, 1)``, in steps of :math:`2^{-53}`.

        Args:
            size (int): The number of draws.
        """
        words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        return (words >> np.uint64(11)) * 2.0**-53

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        r"""Standard normal numbers, by the method of Box and Muller (1958).

        Args:
            shape (tuple[int, ...]): The shape of the result.
        """
        size = math.prod(shape)
        half = -(-size // 2)
        radius = np.sqrt(-2 * np.log1p(-self.random(half)))
        angle = 2 * math.pi * self.random(half)
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return both[:size].reshape(shape)
