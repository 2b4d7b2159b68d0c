r"""From noisy histograms to distributions, by what is known of the noise."""

from __future__ import annotations

import torch
from torch import Tensor

COMMON = 0.1  # of what a row backs off to is the distribution of all rows: nothing is impossible


def project_to_simplex(x: Tensor, total: Tensor) -> Tensor:
    r"""The nearest rows that are nowhere negative and have given sums: the most
    likely counts, given counts with Gaussian noise.

    Args:
        x (torch.Tensor): The rows, ``[K, V]``.
        total (torch.Tensor): The positive sum of each row, ``[K]``.
    """
    ordered = x.sort(dim=1, descending=True).values
    rank = torch.arange(1, x.size(1) + 1, dtype=x.dtype)
    excess = (ordered.cumsum(dim=1) - total[:, None]) / rank
    used = (ordered > excess).sum(dim=1, keepdim=True).clamp(min=1)
    return (x - excess.gather(1, used - 1)).clamp(min=0)


def marginal(noisy: Tensor, sigma: float) -> Tensor:
    r"""The distribution of all rows of a noisy histogram together, ``[1, V]``.

    Args:
        noisy (torch.Tensor): The noisy histogram, ``[K, V]``.
        sigma (float): The standard deviation of the noise.
    """
    sums = noisy.sum(dim=0, keepdim=True)
    return _normalise(project_to_simplex(sums, sums.sum(dim=1).clamp(min=sigma)))


def back_off(noisy: Tensor, sigma: float, prior: Tensor | None = None) -> Tensor:
    r"""The distribution of each row of a noisy histogram, ``[K, V]``.

    What a row differs by from its expectation, under a distribution of lower
    order, is noise and signal. The variance of noise is known. That of the
    signal is taken to grow with the expectation, and how fast it does is what
    the whole histogram shows beyond noise. Each difference is shortened to the
    part that is signal (empirical Bayes), and what is left is projected to
    counts that are nowhere negative. Without noise, rows are as counted;
    with much noise, they are those of lower order.

    Args:
        noisy (torch.Tensor): The noisy histogram, ``[K, V]``.
        sigma (float): The standard deviation of the noise.
        prior (torch.Tensor, optional): The distribution that each row backs
            off to, ``[K, V]``. By default, that of all rows together.
            (default: :obj:`None`)
    """
    total = noisy.sum(dim=1).clamp(min=sigma)  # less than the noise is nothing
    common = marginal(noisy, sigma)
    prior = common if prior is None else (1 - COMMON) * prior + COMMON * common
    expected = total[:, None] * prior
    difference = noisy - expected
    spread = (difference.square() - sigma**2).sum().clamp(min=0) / expected.sum()
    signal = spread * expected
    counts = expected + difference * signal / (signal + sigma**2)
    return _normalise(project_to_simplex(counts, total))


def _normalise(x: Tensor) -> Tensor:
    return x / x.sum(dim=1, keepdim=True)
