r"""Seeds, each derived from the seed of a run and a purpose, and pseudo-random numbers of tuples of
nodes, which depend on nothing but the tuple and a key.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

INCREMENT, FACTOR_1, FACTOR_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


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


def keyed_hash(pairs: Tensor, key: int) -> NDArray[np.uint64]:
    r"""A hash of 64 bits for each ordered tuple of nodes, ``[E]``.

    It depends on the nodes of the tuple, their order and :obj:`key` only, not on
    the other tuples and not on the position. Tuples that differ in one node only
    have different hashes. The hash is not cryptographic: bounds that use it must
    hold for every key.

    Args:
        pairs (torch.Tensor): Tuples of nodes, one per column, ``[r, E]``.
        key (int): The key, modulo :math:`2^{64}`.
    """
    state = _mix(np.full(pairs.size(1), key % 2**64, dtype=np.uint64))
    for node in pairs.cpu().numpy().astype(np.uint64):
        state = _mix(state ^ node)
    return state


def keyed_uniform(pairs: Tensor, key: int) -> Tensor:
    r"""A number in :math:`[0, 1)` for each ordered tuple of nodes, ``[E]``: the
    leading 53 bits of its :meth:`keyed_hash`.

    Args:
        pairs (torch.Tensor): Tuples of nodes, one per column, ``[r, E]``.
        key (int): The key, modulo :math:`2^{64}`.
    """
    leading = keyed_hash(pairs, key) >> np.uint64(11)
    return torch.from_numpy(leading.astype(np.float64) * 2.0**-53)


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    r"""One step of SplitMix64 (Steele, Lea and Flood, 2014), a bijection of 64 bits. Arrays of
    unsigned integers wrap around without a warning.
    """
    state = state + np.uint64(INCREMENT)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(FACTOR_1)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(FACTOR_2)
    return state ^ (state >> np.uint64(31))
