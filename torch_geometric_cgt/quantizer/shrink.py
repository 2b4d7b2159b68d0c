r"""Less noise in noisy means, from the noisy means alone."""

from __future__ import annotations

import torch
from torch import Tensor

THRESHOLDS = [i / 4 for i in range(17)]  # in units of the noise


def shrink_means(means: Tensor, noise: Tensor, nonnegative: bool = False) -> Tensor:
    r"""Moves each coordinate towards zero, by as much as lowers the error most.

    The threshold of each row is the one with the smallest unbiased estimate of
    the squared error (Stein, 1981; Donoho and Johnstone, 1995). Where there is
    little noise, it is zero. Nothing but private results is looked at.

    Args:
        means (torch.Tensor): Means with Gaussian noise, ``[m, d]``.
        noise (torch.Tensor): The standard deviation of each row, ``[m]``.
        nonnegative (bool, optional): Whether the features are known not to be
            negative, whatever the data are. (default: :obj:`False`)
    """
    size, noise = means.abs(), noise[:, None].to(means.dtype)  # [m, d], [m, 1]
    best = torch.full_like(noise, float('inf'))
    threshold = torch.zeros_like(noise)
    for units in THRESHOLDS:
        limit = units * noise
        inside = (size <= limit).sum(dim=1, keepdim=True)
        risk = size.minimum(limit).square().sum(dim=1, keepdim=True) - 2 * noise**2 * inside
        threshold = torch.where(risk < best, limit, threshold)
        best = torch.minimum(best, risk)
    shrunk = means.sign() * (size - threshold).clamp(min=0)
    return shrunk.clamp(min=0) if nonnegative else shrunk
