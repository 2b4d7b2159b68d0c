r"""Views of trees: what GNNs of different kinds see of a computation graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data.tree import TreeShape

BLOCK_ELEMENTS = 1 << 24  # features per block of trees
LAYER_NAMES = ('root', 'children', 'grandchildren')


def view_names(shape: TreeShape) -> list[str]:
    r"""The names of the views of trees of this shape, see :meth:`tree_views`."""
    hops = [f'{hop} hop' if hop == 1 else f'{hop} hops' for hop in range(1, shape.depth + 1)]
    return [*_layer_names(shape), *hops, 'maximum', 'layers apart']


def tree_views(tokens: Tensor, table: Tensor, shape: TreeShape) -> dict[str, Tensor]:
    r"""Computes several views of each tree.

    * ``root``, ``children``, ``grandchildren``, ``layer 3``, ...: the mean of the
      features of one layer, which a perceptron or a model without self-loops
      sees.
    * ``1 hop``, ``2 hops``, ...: features that are combined with those of the
      children, once or repeatedly, with the symmetric normalisation of
      :class:`~torch_geometric.nn.conv.GCNConv`.
    * ``maximum``: the largest and the smallest value of each feature among the
      children of the root.
    * ``layers apart``: the means of all layers side by side, as for GraphSAGE.

    Args:
        tokens (torch.Tensor): The token of each breadth-first slot, ``[n, T]``.
        table (torch.Tensor): The features of each token, ``[m, D]``. Token
            :obj:`m` is null.
        shape (TreeShape): The geometry of the trees.

    Returns:
        One tensor per view, ``[n, D]``, or wider for the last two.
    """
    step = max(1, BLOCK_ELEMENTS // (shape.num_slots * max(1, table.size(1))))
    parts = [_views(part.long(), table, shape) for part in tokens.split(step)]
    return {name: torch.cat([part[name] for part in parts]) for name in view_names(shape)}


def _views(tokens: Tensor, table: Tensor, shape: TreeShape) -> dict[str, Tensor]:
    table = F.pad(table, (0, 0, 0, 1))  # the last row is the null token
    slots = [tokens[:, shape.layer_slice(layer)] for layer in range(shape.depth + 1)]
    real = [(slot < table.size(0) - 1).unsqueeze(-1).to(table.dtype) for slot in slots]
    layers = [table[slot] for slot in slots]
    means = [
        (z * exists).sum(dim=1) / exists.sum(dim=1).clamp(min=1)
        for z, exists in zip(layers, real, strict=True)
    ]
    out = dict(zip(_layer_names(shape), means, strict=True))
    absent = real[1] == 0
    largest = layers[1].masked_fill(absent, -torch.inf).amax(dim=1)
    smallest = layers[1].masked_fill(absent, torch.inf).amin(dim=1)
    out['maximum'] = torch.cat([largest, smallest], dim=1).nan_to_num(posinf=0.0, neginf=0.0)
    out['layers apart'] = torch.cat(means, dim=1)
    degree = [1 + _sum_below(exists, shape, layer) for layer, exists in enumerate(real[1:])]
    degree.append(torch.ones_like(real[-1]))  # leaves
    for hop in range(1, shape.depth + 1):
        for layer in range(shape.depth + 1 - hop):
            weighted = layers[layer + 1] * real[layer + 1] / degree[layer + 1].sqrt()
            below = _sum_below(weighted, shape, layer)
            layers[layer] = layers[layer] / degree[layer] + below / degree[layer].sqrt()
        out[f'{hop} hop' if hop == 1 else f'{hop} hops'] = layers[0][:, 0]
    return out


def _sum_below(z: Tensor, shape: TreeShape, layer: int) -> Tensor:
    r"""Sums the children of each slot of a layer."""
    return z.unflatten(1, (-1, shape.num_neighbors[layer])).sum(dim=2)


def _layer_names(shape: TreeShape) -> list[str]:
    return [
        LAYER_NAMES[layer] if layer < len(LAYER_NAMES) else f'layer {layer}'
        for layer in range(shape.depth + 1)
    ]
