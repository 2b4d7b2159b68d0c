"""A toy set of token trees whose statistics depend on the label, and distances to it."""

import torch
from torch import Tensor

from tests.helpers.trees import apply_null_rule
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import TreeSource

NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS = 6, 2, [3, 2]
SHAPE = TreeShape.of(NUM_NEIGHBORS)


def toy_trees(size: int = 400, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Token trees and their labels. Label 0 has tokens 0 to 2 and few children, label 1 has
    tokens 3 to 5 and many. Three of four children have the token of their parent."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % NUM_CLASSES
    tokens = torch.randint(3, (size, SHAPE.num_slots), generator=rng) + 3 * y[:, None]
    for slot in range(1, SHAPE.num_slots):
        same = torch.rand(size, generator=rng) < 0.75
        tokens[same, slot] = tokens[same, int(SHAPE.parent[slot])]
    null = torch.rand(tokens.shape, generator=rng) < torch.tensor([0.6, 0.1])[y][:, None]
    null[:, 0] = False
    return apply_null_rule(tokens.masked_fill(null, NUM_TOKENS), NUM_TOKENS, SHAPE), y


def toy_source(size: int = 400) -> TreeSource:
    tokens, y = toy_trees(size)
    sizes = (NUM_TOKENS, NUM_CLASSES, SHAPE)
    return TreeSource(lambda index, _: tokens[index], y, torch.zeros_like(y), *sizes)


def marginals(tokens: Tensor, y: Tensor) -> Tensor:
    """The frequency of each token in each layer, given the label, [C, L + 1, m + 1]."""
    out = torch.zeros(NUM_CLASSES, SHAPE.depth + 1, NUM_TOKENS + 1)
    label, layer = y[:, None].expand_as(tokens), SHAPE.layer.expand_as(tokens)
    out.index_put_((label, layer, tokens), torch.ones(()), accumulate=True)
    return out / out.sum(dim=2, keepdim=True)


def distance(tokens: Tensor, y: Tensor) -> float:
    """The total variation distance to the frequencies of the toy set, in the mean."""
    gap = marginals(tokens, y) - marginals(*toy_trees(4000, seed=1))
    return float(0.5 * gap.abs().sum(dim=2).mean())


def share_of_copies(tokens: Tensor) -> float:
    """How many of the real children have the token of their parent."""
    child, parent = tokens[:, 1:], tokens[:, SHAPE.parent[1:]]
    return float((child == parent)[child < NUM_TOKENS].float().mean())
