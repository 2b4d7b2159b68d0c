r"""Which roots a synthetic dataset has."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_roots(
    y: Tensor, split: Tensor, num_samples: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Draws labels and splits of synthetic roots.

    The number of roots of each split is the source's proportion, rounded by
    largest remainder; labels are drawn from the label histogram of the split.

    Args:
        y (torch.Tensor): The label of each source root.
        split (torch.Tensor): The split code of each source root.
        num_samples (int): The number of synthetic roots.
        rng (torch.Generator): The source of randomness.
    """
    codes, sizes = split.unique(return_counts=True)
    exact = sizes.double() * num_samples / sizes.sum()
    share = exact.floor().long()
    rest = num_samples - int(share.sum())
    share[(exact - share).argsort(descending=True, stable=True)[:rest]] += 1
    labels = []
    for code, size in zip(codes, share, strict=True):
        histogram = torch.bincount(y[split == code]).double()
        labels.append(
            torch.multinomial(histogram, int(size), replacement=True, generator=rng)
            if size
            else y.new_empty(0)
        )
    perm = torch.randperm(num_samples, generator=rng)
    return torch.cat(labels)[perm], codes.repeat_interleave(share)[perm]
