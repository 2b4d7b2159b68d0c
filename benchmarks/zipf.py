r"""Made-up token trees with structure, for any number of tokens."""

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape


def zipf_trees(n: int, num_tokens: int, rng: torch.Generator, shuffled: bool = False) -> tuple:
    r"""Trees with structure: labels prefer groups of consecutive tokens, groups prefer members,
    children come from the group that goes with their parent's group or from the label's.

    Args:
        n (int): The number of trees, five children per slot at most, two layers.
        num_tokens (int): The number of tokens.
        rng (torch.Generator): The source of randomness.
        shuffled (bool): Whether numbers of tokens say nothing about groups.
    """
    world = torch.Generator().manual_seed(1)  # the same for every call
    num_groups, num_classes, shape = 97, 10, TreeShape.of([5, 5])
    size = -(-num_tokens // num_groups)
    group_of = torch.stack([torch.randperm(num_groups, generator=world) for _ in range(10)])
    goes_with = torch.randperm(num_groups, generator=world)
    member = torch.stack([torch.randperm(size, generator=world) for _ in range(num_groups)])
    name = torch.randperm(num_tokens, generator=world) if shuffled else torch.arange(num_tokens)

    def zipf(count: int, many: torch.Size) -> Tensor:
        weight = 1 / torch.arange(1, count + 1, dtype=torch.double)
        return torch.multinomial(weight, many.numel(), True, generator=rng).view(many)

    y = torch.randint(num_classes, (n,), generator=rng)
    groups = [group_of[y[:, None], zipf(num_groups, torch.Size([n, 1]))]]
    alive, layers = torch.ones(n, 1, dtype=torch.bool), []
    for fan_out in (*shape.num_neighbors, 0):
        rank = zipf(size, groups[-1].shape)
        token = (groups[-1] * size + member[groups[-1], rank]).clamp(max=num_tokens - 1)
        layers.append(torch.where(alive, name[token], num_tokens))
        if fan_out:
            parent = groups[-1].repeat_interleave(fan_out, dim=1)
            own = group_of[y[:, None], zipf(num_groups, parent.shape)]
            follows = torch.rand(parent.shape, generator=rng) < 0.7
            groups.append(torch.where(follows, goes_with[parent], own))
            number = torch.randint(fan_out + 1, (*alive.shape, 1), generator=rng)
            full = torch.rand(number.shape, generator=rng) < 0.8  # as in graphs of this size
            number = torch.where(full, fan_out, number)
            alive = (alive[..., None] & (torch.arange(fan_out) < number)).flatten(1)
    return torch.cat(layers, dim=1), y
