r"""The kinds of noise that a ledger can account for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

# (largest sigma, steps per unit) of discrete noise. With these, 64 bits are enough to sample it.
STEPS = ((16, 256), (256, 16), (1 << 25, 1))

N = TypeVar('N', bound='Noise')


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
    the noise, see :meth:`~torch_geometric_cgt.privacy.mechanisms.noisy_sums`.

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
