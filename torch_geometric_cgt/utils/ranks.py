r"""Ranks of the entries of a vector."""

import torch
from torch import Tensor


def rank_among_equals(value: Tensor) -> Tensor:
    r"""Returns how many earlier entries have the same value, for each entry.

    Args:
        value (torch.Tensor): The values, ``[n]``, e.g. groups.
    """
    ordered, order = torch.sort(value, stable=True)
    position = torch.arange(value.numel(), device=value.device)
    rank = torch.empty_like(position)
    rank[order] = position - torch.searchsorted(ordered, ordered)
    return rank
