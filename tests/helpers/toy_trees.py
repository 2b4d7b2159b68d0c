"""A source of trees with known dependences between slots."""

import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import TreeSource


def toy_source(num_roots=256, with_scene=False) -> TreeSource:
    """Trees of the shape [2, 2] with tokens 0 to 5. Roots of label c have one child with token c
    and one with any other token, which has two children that repeat the root.
    """
    y = torch.arange(num_roots) % 2
    scene = y * (1 + torch.arange(num_roots) // 2 % 2)  # 0 for label 0, 1 or 2 for label 1

    def draw(index, rng):
        tokens = torch.full((index.numel(), 7), 6)
        tokens[:, 0] = scene[index] if with_scene else torch.randint(3, index.shape, generator=rng)
        tokens[:, 1], tokens[:, 2] = y[index], 2 + torch.randint(4, index.shape, generator=rng)
        tokens[:, 5:] = tokens[:, :1]
        flipped = torch.rand(index.shape, generator=rng) < 0.5  # siblings have no order
        tokens[flipped] = tokens[flipped][:, [0, 2, 1, 5, 6, 3, 4]]
        return tokens

    sizes = (6, 2, TreeShape.of([2, 2]))
    return TreeSource(draw, y, torch.zeros_like(y), *sizes, scene=scene if with_scene else None)
