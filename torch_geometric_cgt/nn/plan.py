r"""All that can be known of a batch before the weights come in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.family import Family
from torch_geometric_cgt.nn.moving import Movable
from torch_geometric_cgt.nn.prefixes import Prefixes
from torch_geometric_cgt.nn.vocabulary import Tiling


@dataclass(frozen=True)
class Plan(Movable):
    r"""Which queries a batch needs and who reads them.

    A plan is made on the CPU, where sizes that depend on the data cost
    nothing, and moved to the device of the model: what runs there has no
    reason to wait for the host.

    Args:
        prefixes (Prefixes or None): The distinct paths of the batch, if they
            are what is evaluated.
        start (torch.Tensor): The query of each root, ``[B]``.
        root (torch.Tensor): The query of the children of each root, ``[B]``.
        token (torch.Tensor): The token of each root, ``[B]``.
        families (tuple[Family, ...]): Parents and children, layer by layer.
        tilings (tuple[Tiling or None, ...]): For the root and each layer, how
            a vocabulary of cells visits the tokens.
    """

    prefixes: Prefixes | None
    start: Tensor
    root: Tensor
    token: Tensor
    families: tuple[Family, ...]
    tilings: tuple[Tiling | None, ...]


def tree_index(tokens: Tensor, shape: TreeShape, num_tokens: int) -> tuple[Tensor, ...]:
    r"""The query of each parent slot where each tree has queries of its own:
    level by level ``[B, P]``, counted within the level, negative where the
    slot is null.
    """
    index = []
    for level in range(shape.depth + 1):
        width = 1 if level == 0 else shape.layer_sizes[level - 1]
        own = torch.arange(tokens.size(0) * width, device=tokens.device).view(-1, width)
        if level > 0:
            own = own.masked_fill(tokens[:, shape.layer_slice(level - 1)] == num_tokens, -1)
        index.append(own)
    return tuple(index)
