r"""Draws with replacement, of which nothing impossible ever comes."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_positions(chance: Tensor, num: int) -> Tensor:
    r"""Draws positions along the last dimension, ``[..., num]``.

    A position with the chance zero is never drawn, unless all of them have
    it: then it is the first.

    Args:
        chance (torch.Tensor): What the probabilities are proportional to,
            ``[..., m]``.
        num (int): The number of draws.
    """
    edges = chance.double().cumsum(dim=-1)
    total = edges[..., -1:]
    at = torch.rand((*chance.shape[:-1], num), dtype=torch.double, device=chance.device) * total
    at = at.minimum(total.nextafter(-torch.ones_like(total)))  # a product may round up to the end
    return torch.searchsorted(edges, at, right=True)
