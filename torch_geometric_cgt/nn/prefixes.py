r"""The distinct paths of a batch of token trees: what a batch costs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.moving import Movable


@dataclass(frozen=True)
class Prefixes(Movable):
    r"""The distinct (label, scene, path) prefixes of a batch, level by level.

    A prefix of level :math:`d` holds :math:`d` tokens, root first; the one of
    level zero is the bare label. Under the ancestor mask it determines one
    context, that of its last token, and one query, which serves all children
    of that token. Null parents have no prefix and cost nothing.

    Args:
        token (torch.Tensor): The last token of each prefix, ``[N]``; the null
            token at level zero.
        level (torch.Tensor): The level of each prefix, ``[N]``.
        y (torch.Tensor): The label of each prefix, ``[N]``.
        scene (torch.Tensor): The scene of each prefix, ``[N]``.
        ancestors (torch.Tensor): The prefixes of a prefix, shortest first,
            itself last, ``[N, L + 1]``, filled up with itself.
        is_ancestor (torch.Tensor): Which of them are not filling,
            ``[N, L + 1]``.
        index (tuple[torch.Tensor, ...]): For each level, the prefix of each
            parent slot, ``[B, P]``, counted within the level; :obj:`-1`
            where the slot is null.
        sizes (tuple[int, ...]): The number of prefixes of each level.
    """

    token: Tensor
    level: Tensor
    y: Tensor
    scene: Tensor
    ancestors: Tensor
    is_ancestor: Tensor
    index: tuple[Tensor, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls, tokens: Tensor, y: Tensor, scene: Tensor, shape: TreeShape, num_tokens: int
    ) -> Prefixes:
        r"""Finds the prefixes of the internal slots of some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor): The scene of each root, ``[B]``.
            shape (TreeShape): The geometry of the trees.
            num_tokens (int): The number of tokens, which is also the null one.
        """
        num_scenes = scene.max() + 1 if scene.numel() else 1
        key, start = (y.long() * num_scenes + scene.long()).unique(return_inverse=True)
        index, first = [start[:, None]], 0
        token = [torch.full_like(key, num_tokens)]
        labels, scenes = [key // num_scenes], [key % num_scenes]
        ancestors = [torch.arange(key.numel(), device=key.device)[:, None]]
        for layer in range(shape.depth):
            slots = tokens[:, shape.layer_slice(layer)].long()
            above = index[-1]
            if layer > 0:
                above = above.repeat_interleave(shape.num_neighbors[layer - 1], dim=1)
            real = (slots != num_tokens) & (above >= 0)  # nothing is below a null slot
            path = above * (num_tokens + 1) + slots
            key, inverse = path[real].unique(return_inverse=True)
            index.append(torch.full_like(slots, -1).masked_scatter(real, inverse))
            parent = key.div(num_tokens + 1, rounding_mode='floor')
            token.append(key - parent * (num_tokens + 1))
            labels.append(labels[-1][parent])
            scenes.append(scenes[-1][parent])
            first += ancestors[-1].size(0)
            own = torch.arange(first, first + key.numel(), device=key.device)
            ancestors.append(torch.cat([ancestors[-1][parent], own[:, None]], dim=1))
        sizes = tuple(t.numel() for t in token)
        level = torch.arange(len(sizes), device=y.device).repeat_interleave(
            torch.tensor(sizes, device=y.device)
        )
        width = shape.depth + 1
        return cls(
            token=torch.cat(token),
            level=level,
            y=torch.cat(labels),
            scene=torch.cat(scenes),
            ancestors=torch.cat(
                [torch.cat([a, a[:, -1:].expand(-1, width - a.size(1))], dim=1) for a in ancestors]
            ),
            is_ancestor=torch.arange(width, device=y.device) <= level[:, None],
            index=tuple(index),
            sizes=sizes,
        )
