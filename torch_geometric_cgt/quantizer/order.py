r"""Numbers for clusters such that near clusters have near numbers."""

from __future__ import annotations

import torch
from torch import Tensor

LEAF = 8  # clusters whose order does not matter
NUM_STEPS = 5  # power iterations: any direction of large spread will do


def nearby_order(centers: Tensor) -> Tensor:
    r"""Orders points by repeated halving along a direction of large spread, so
    that any run of consecutive points is a compact group.

    Args:
        centers (torch.Tensor): The points, ``[m, D]``.

    Returns:
        The points in their new order, ``[m]``.
    """
    done, todo = [], [torch.arange(centers.size(0))]
    while todo:
        part = todo.pop()
        if part.numel() <= LEAF:
            done.append(part)
            continue
        points = centers[part] - centers[part].mean(dim=0)
        direction = points[points.square().sum(dim=1).argmax()]
        for _ in range(NUM_STEPS):
            direction = points.t() @ (points @ direction)
            direction = direction / direction.norm().clamp(min=1e-12)
        ranked = part[(points @ direction).argsort(stable=True)]
        half = part.numel() // 2
        todo += [ranked[half:], ranked[:half]]  # the first half is visited first
    return torch.cat(done) if done else torch.arange(0)
