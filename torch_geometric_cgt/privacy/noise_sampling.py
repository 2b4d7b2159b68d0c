r"""Sampling of noise: exact discrete Gaussian, and normal numbers from system randomness."""

from __future__ import annotations

import math
import os

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.privacy.noise import round_sigma, sigma_steps

BITS = 62  # of each random number, so that the products in this module stay below 2^63
FARTHEST = 64  # largest proposal, in its scale; acceptance beyond has probability exp(-1984)
BLOCK = 1 << 20  # proposals per block


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
