r"""Floating-point noise from the random bits of the operating system."""

from __future__ import annotations

import math
import os

import numpy as np


class SystemRandom:
    r"""Draws what DP-SGD needs with the face of
    :class:`numpy.random.Generator`, from bits of the operating system. There
    is no seed and no state that somebody could learn.
    """

    def random(self, size: int) -> np.ndarray:
        r"""Numbers from zero up to, without, one, in steps of :math:`2^{-53}`.

        Args:
            size (int): How many.
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
