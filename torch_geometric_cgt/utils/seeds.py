r"""Independent seeds, each derived from the seed of a run and a purpose."""

from __future__ import annotations

import hashlib

import torch


def derive_seed(seed: int, *purpose: int | str) -> int:
    r"""Returns an independent seed for a purpose.

    Each random draw has its own seed, which depends on the seed of the run and
    on the position in the run (an epoch, a step, a block), but not on earlier
    draws. An interrupted and resumed run therefore draws the same numbers as
    an uninterrupted run.

    Args:
        seed (int): The seed of the run.
        *purpose (int or str): What is drawn, and the position in the run.
    """
    text = '/'.join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], 'big')


def seeded(seed: int, *purpose: int | str, device: torch.device | str = 'cpu') -> torch.Generator:
    r"""A :class:`torch.Generator` with the seed of :meth:`derive_seed`."""
    return torch.Generator(device).manual_seed(derive_seed(seed, *purpose))
