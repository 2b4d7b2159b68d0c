r"""Train, validation and test masks as one split code per node."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

MASKS = ('train_mask', 'val_mask', 'test_mask')
NUM_SPLITS = 1 << len(MASKS)  # one code per combination of masks


def split_of(data: Data) -> Tensor | None:
    r"""Packs the masks of a graph into one split code per node: 1 for train, 2
    for validation, 4 for test, 0 for none of them. The codes of overlapping
    masks are added. Returns :obj:`None` for a graph without masks.
    """
    if not any(name in data for name in MASKS):
        return None
    code = torch.zeros(data.num_nodes, dtype=torch.long)
    for bit, name in enumerate(MASKS):
        if name in data:
            code |= data[name].cpu().bool().long() << bit
    return code


def masks_of(code: Tensor) -> dict[str, Tensor]:
    r"""The inverse of :meth:`split_of`."""
    return {name: (code >> bit) & 1 == 1 for bit, name in enumerate(MASKS)}


def random_split(candidates: Tensor, seed: int) -> Tensor:
    r"""Splits the candidate nodes 50/10/40 at random, as the paper does.

    Args:
        candidates (torch.Tensor): Mask of the nodes to split, ``[N]``.
        seed (int): The seed of the permutation.
    """
    index = candidates.nonzero().view(-1)
    perm = index[torch.randperm(index.numel(), generator=torch.Generator().manual_seed(seed))]
    num_train, num_val = round(0.5 * index.numel()), round(0.1 * index.numel())
    code = torch.zeros(candidates.numel(), dtype=torch.long)
    code[perm[:num_train]] = 1
    code[perm[num_train : num_train + num_val]] = 2
    code[perm[num_train + num_val :]] = 4
    return code
