r"""A prefix tree of hashes, grown by noisy counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.privacy.mechanisms import noisy_histogram


@dataclass(frozen=True)
class Leaves:
    r"""The leaves of a prefix tree."""

    index: Tensor  # [n] the leaf of each row, -1 where it has none; not private
    count: Tensor  # [m] the noisy number of rows of each leaf
    start: Tensor  # [m] the value of each leaf that its tree began with


def grow_prefix_tree(
    start: Tensor,
    num_starts: int,
    bits: Tensor,
    leaf_min: float,
    sigma: float,
    generator: torch.Generator | None = None,
) -> Leaves:
    r"""Splits rows by one bit after the other, where both halves are large enough.

    The bits of a locality-sensitive hash are the same for rows that are close
    to each other, so that rows with a long common prefix are (Chang and
    Kamath, 2021). Which nodes are split depends on noisy counts alone. A row
    is counted once per level: each of the :math:`1 + depth` levels has
    sensitivity 1.

    Args:
        start (torch.Tensor): A value that separates rows from the outset,
            ``[n]``, their label for instance; -1 leaves a row out.
        num_starts (int): The number of such values, known beforehand.
        bits (torch.Tensor): The hash of each row, ``[n, depth]``.
        leaf_min (float): The smallest noisy count of a leaf that comes from a
            split.
        sigma (float): The width of the discrete Gaussian noise of each level.
        generator (torch.Generator, optional): The source of random bits.
            (default: :obj:`None`)
    """
    node = start.clone().long()  # of this level; -1 for rows whose leaf is found
    leaf = torch.full_like(node, -1)
    count = noisy_histogram(node, num_starts, sigma, generator)
    origin = torch.arange(num_starts)
    counts, origins, done = [], [], 0
    for level in range(bits.size(1)):
        half = torch.where(node >= 0, 2 * node + bits[:, level].long(), -1)
        halves = noisy_histogram(half, 2 * origin.numel(), sigma, generator).view(-1, 2)
        split = halves.min(dim=1).values >= leaf_min
        # Nodes that stay whole are leaves.
        place = torch.where(split, -1, done + (~split).cumsum(0) - 1)
        leaf = torch.where(node >= 0, place[node.clamp(min=0)], -1).maximum(leaf)
        counts.append(count[~split])
        origins.append(origin[~split])
        done += int((~split).sum())
        # The others are replaced by their halves.
        place = torch.where(split, 2 * (split.cumsum(0) - 1), -1)
        node = torch.where(
            (node >= 0) & split[node.clamp(min=0)],
            place[node.clamp(min=0)] + bits[:, level].long(),
            -1,
        )
        count = halves[split].view(-1)
        origin = origin[split].repeat_interleave(2)
        if origin.numel() == 0:
            break
    leaf = torch.where(node >= 0, done + node, leaf)
    return Leaves(leaf, torch.cat([*counts, count]), torch.cat([*origins, origin]))
