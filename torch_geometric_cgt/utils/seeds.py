r"""Seeds that are a pure function of what they are for."""

from __future__ import annotations

import hashlib

import torch


def derive_seed(seed: int, *purpose: int | str) -> int:
    r"""An independent seed for each purpose.

    Everything that is drawn during training has a seed of its own, made of
    the seed of the run and its place in the run (an epoch, a step, a block).
    Nothing depends on what was drawn before, so a run that was cut and
    resumed draws what an uninterrupted run draws.

    Args:
        seed (int): The seed of the run.
        *purpose (int or str): What is drawn, and where in the run.
    """
    text = '/'.join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], 'big')


def seeded(seed: int, *purpose: int | str, device: torch.device | str = 'cpu') -> torch.Generator:
    r"""A source of randomness for one purpose."""
    return torch.Generator(device).manual_seed(derive_seed(seed, *purpose))
