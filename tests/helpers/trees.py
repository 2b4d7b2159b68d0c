"""Small token trees: by hand, random, and those of a random graph."""

import torch
from torch import Tensor

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split, tokens_of

SHAPE = TreeShape.of([3, 2])


def two_trees() -> TokenTrees:
    """Two trees by hand; null is 2. The first is 0 -> 1 -> 1, the second has a root alone."""
    tokens = torch.tensor([[0, 1, 2, 1, 2], [1, 2, 2, 2, 2]])
    return TokenTrees(
        tokens, torch.tensor([1, 0]), torch.tensor([1, 4]), 2, 2, TreeShape.of([2, 1])
    )


def apply_null_rule(tokens: Tensor, num_tokens: int, shape: TreeShape) -> Tensor:
    """Makes roots real, and all slots below a null one null, in place."""
    tokens[:, 0] = tokens[:, 0].clamp(max=num_tokens - 1)
    for slot in range(1, shape.num_slots):
        tokens[tokens[:, int(shape.parent[slot])] == num_tokens, slot] = num_tokens
    return tokens


def random_trees(num: int, num_tokens: int, shape: TreeShape, rng: torch.Generator):
    """Random token trees that keep the null rule, and one of two labels for each."""
    tokens = torch.randint(num_tokens + 1, (num, shape.num_slots), generator=rng)
    tokens = apply_null_rule(tokens, num_tokens, shape)
    return tokens, torch.randint(2, (num,), generator=rng)


def encoded():
    """A random graph as a forest, and the same trees as rows of tokens."""
    graph = random_graph(num_nodes=40, num_edges=80)
    forest = DuplicateEncode([3, 2], seed=0)(graph)
    trees = TokenTrees(
        tokens_of(forest.tree, torch.arange(40), 40),
        graph.y,
        random_split(graph.y >= 0, 0),
        40,
        3,
        SHAPE,
        graph.x,
    )
    return forest, trees


def random_tokens(shape: TreeShape, num_trees: int, num_tokens: int, seed: int = 0) -> Tensor:
    """Trees with null slots, of which all descendants are null, too."""
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(num_tokens, (num_trees, shape.num_slots), generator=rng)
    null = torch.rand(tokens.shape, generator=rng) < 0.4
    null[:, 0] = False
    for layer in range(1, shape.depth + 1):
        slots = shape.layer_slice(layer)
        null[:, slots] |= null[:, shape.parent[slots]]
    return tokens.masked_fill(null, num_tokens)


def shuffle_siblings(tokens: Tensor, shape: TreeShape, seed: int) -> Tensor:
    """The same trees, in which the children of each parent changed places."""
    rng = torch.Generator().manual_seed(seed)
    out, place = [tokens[:, :1]], torch.zeros_like(tokens[:, :1])
    for layer, fan_out in enumerate(shape.num_neighbors):
        below = tokens[:, shape.layer_slice(layer + 1)].unflatten(1, (-1, fan_out))
        below = below.gather(1, place[..., None].expand(-1, -1, fan_out))
        order = torch.rand(below.shape, generator=rng).argsort(dim=2)
        out.append(below.gather(2, order).flatten(1))
        place = (place[..., None] * fan_out + order).flatten(1)
    return torch.cat(out, dim=1)
