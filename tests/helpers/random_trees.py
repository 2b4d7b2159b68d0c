"""Random token trees that keep the null rule."""

import torch


def random_trees(num, num_tokens, shape, rng):
    tokens = torch.randint(num_tokens + 1, (num, shape.num_slots), generator=rng)
    tokens[:, 0] = tokens[:, 0].clamp(max=num_tokens - 1)
    for slot in range(1, shape.num_slots):
        tokens[tokens[:, shape.parent[slot]] == num_tokens, slot] = num_tokens
    return tokens, torch.randint(2, (num,), generator=rng)
