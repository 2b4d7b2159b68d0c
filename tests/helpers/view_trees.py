"""Trees whose root and children carry a known share of their label."""

import torch

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models.candidates import CandidatePool

SIZE = 8  # candidates of a group
FEW_SHAPE = TreeShape.of([3, 2])


def trees_with_signal(root, child, seed, n=3000, num_classes=3):
    """Trees of two child slots. A share of the roots, and of the children, has the token of the
    root's label, and the others have a random one. A quarter of the second children is null."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (n,), generator=rng)
    share = torch.tensor([root, child, child])
    agree = torch.rand(n, 3, generator=rng) < share
    tokens = torch.where(agree, y[:, None], torch.randint(num_classes, (n, 3), generator=rng))
    tokens[:, 2] = tokens[:, 2].masked_fill(torch.rand(n, generator=rng) < 0.25, num_classes)
    split = torch.where(torch.rand(n, generator=rng) < 0.5, 1, 4)
    return TokenTrees(tokens, y, split, num_classes, num_classes, TreeShape.of([2]))


def pool_of(root, child, seed=1, groups=1500):
    """Candidates whose labels agree in groups."""
    trees = trees_with_signal(root, child, seed, n=groups * SIZE)
    order = trees.y.argsort(stable=True)
    whole = torch.cat(
        [rows[: rows.numel() // SIZE * SIZE] for rows in order.split(trees.y.bincount().tolist())]
    )
    return CandidatePool(trees.select(whole), SIZE, seed)


def few_trees(num_tokens=6):
    """The second tree is a root alone; the third has the same token twice."""
    null = num_tokens
    tokens = [[0, 1, 2, 3, 4, 5, 0, 1, 2, null], [1, *[null] * 9], [2, 4, 4, null, 1, *[null] * 5]]
    y = torch.tensor([0, 1, 2])
    return TokenTrees(torch.tensor(tokens), y, torch.ones(3), num_tokens, 3, FEW_SHAPE)
