"""All token trees of a small shape, and their exact probabilities under a diffusion."""

from itertools import product

import torch
from torch import Tensor

from torch_geometric_cgt.baselines import TreeDiffusion
from torch_geometric_cgt.baselines.slot_denoiser import SlotBatch, SlotDenoiser


def all_trees(num_tokens: int, num_neighbors: list[int]) -> Tensor:
    """All trees whose null slots come after their siblings, [n, T]."""
    found = [[(token,)] for token in range(num_tokens)]  # layers of each tree
    for fan_out in num_neighbors:
        families = [
            (*real, *[num_tokens] * (fan_out - size))
            for size in range(fan_out + 1)
            for real in product(range(num_tokens), repeat=size)
        ]
        empty = (num_tokens,) * fan_out
        found = [
            [*layers, sum(below, ())]
            for layers in found
            for below in product(
                *(families if token < num_tokens else [empty] for token in layers[-1])
            )
        ]
    return torch.tensor([sum(layers, ()) for layers in found])


@torch.no_grad()
def over_orders(denoiser: SlotDenoiser, batch: SlotBatch, slots: Tensor) -> tuple[Tensor, Tensor]:
    """The log-likelihood of unmasking slots in a random order, one at a time, and the mean
    log-probability over orders, both [B]. It adds up orders over sets of revealed slots.
    """
    exact, mean = torch.zeros(slots.size(0)), torch.zeros(slots.size(0))
    for pattern in slots.unique(dim=0):
        places = pattern.nonzero().view(-1).tolist()
        rows = (slots == pattern).all(dim=1).nonzero().view(-1)
        part, n = batch.rows(rows), len(places)
        likelihood = {0: torch.ones(rows.numel(), dtype=torch.double)}  # by revealed slots
        total = {0: torch.zeros(rows.numel(), dtype=torch.double)}
        reached = {0: 1.0}
        for revealed in range((1 << n) - 1):
            hidden = torch.zeros_like(part.exists)
            hidden[:, [place for i, place in enumerate(places) if not revealed >> i & 1]] = True
            left = n - revealed.bit_count()
            masked = part.masked(hidden, denoiser.num_states)
            found = denoiser(masked, hidden).log_prob(part.state[hidden]).double()
            found = found.view(rows.numel(), left)
            for i, log_prob in zip(
                [i for i in range(n) if not revealed >> i & 1], found.t(), strict=True
            ):
                key = revealed | 1 << i
                step = likelihood[revealed] * log_prob.exp() / left
                likelihood[key] = likelihood.get(key, 0.0) + step
                step = (total[revealed] + reached[revealed] * log_prob) / left
                total[key] = total.get(key, 0.0) + step
                reached[key] = reached.get(key, 0.0) + reached[revealed] / left
        exact[rows] = likelihood[(1 << n) - 1].log().float()
        mean[rows] = total[(1 << n) - 1].float()
    return exact, mean


@torch.no_grad()
def exact_log_prob(model: TreeDiffusion, tokens: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The exact log-likelihood of trees, and the mean over orders of unmasking, both [B]."""
    batch, counts = model.structure(tokens, y, torch.zeros_like(y))
    parts = [(model.tokens, batch, batch.exists)]
    parts += [(model.counts, *layer) for layer in model.layers(counts)]
    found = [over_orders(*part) for part in parts]
    return sum(a for a, _ in found), sum(b for _, b in found)
