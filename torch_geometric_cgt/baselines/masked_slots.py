r"""Absorbing-state diffusion over the slots of a tree: the likelihood bound, and sampling.

The forward process masks the slots one after the other, in a random order. The reverse process
unmasks them in a random order, each given all that are not masked. Its log-likelihood is bounded
from below by the mean over orders. This mean is one over masks: the number of masked slots
:math:`n` is uniform between one and the number of slots :math:`N`, and the log-probabilities of the
masked slots are weighed by :math:`N / n`. It is also the bound of masked diffusion in continuous
time, with any schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import comb

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.slot_denoiser import SlotBatch, SlotDenoiser

EXACT_SLOTS = 5  # all masks of as many slots are enumerated


def draw_masks(slots: Tensor, place: Tensor, rng: torch.Generator | None) -> tuple[Tensor, Tensor]:
    r"""Draws a mask of each tree.

    Args:
        slots (torch.Tensor): The slots that are diffused, ``[B, T]``.
        place (torch.Tensor): A number in :math:`[0, 1)` per tree, ``[B]``. The
            number of masked slots rises with it; it is uniform if this is.
        rng (torch.Generator, optional): The source of randomness.

    Returns:
        The masked slots, ``[B, T]``, and the weight of each tree, ``[B]``.
    """
    total = slots.sum(dim=1)
    size = torch.minimum((place * total).floor().long() + 1, total)
    hidden = slots & (random_order(slots, rng) < size[:, None])
    return hidden, total / size.clamp(min=1)


def random_order(slots: Tensor, rng: torch.Generator | None) -> Tensor:
    r"""The place of each slot in a random order in which :obj:`slots` are first, ``[B, T]``."""
    noise = torch.rand(slots.shape, generator=rng, device=slots.device)
    return noise.masked_fill(~slots, 2.0).argsort(dim=1).argsort(dim=1)


def every_mask(slots: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    r"""Yields all masks, with the weights that give the mean of :meth:`draw_masks`.

    Args:
        slots (torch.Tensor): The slots that are diffused, ``[B, T]``.
    """
    total = slots.sum(dim=1)
    place = (slots.long().cumsum(dim=1) - 1).clamp(min=0)
    sizes = range(int(total.max()) + 1 if total.numel() else 1)
    for mask in range(1, 1 << (len(sizes) - 1)):
        size = mask.bit_count()
        hidden = slots & ((mask >> place) & 1).bool()
        weights = [1 / (size * comb(n, size)) if mask < 1 << n else 0.0 for n in sizes]
        yield hidden, torch.tensor(weights, device=slots.device)[total]


def masked_log_prob(denoiser: SlotDenoiser, batch: SlotBatch, hidden: Tensor) -> Tensor:
    r"""The summed log-probability of the hidden slots given all others, ``[B]``.

    Args:
        denoiser (SlotDenoiser): The model.
        batch (SlotBatch): Trees without masked slots.
        hidden (torch.Tensor): The slots to mask, ``[B, T]``.
    """
    found = denoiser(batch.masked(hidden, denoiser.num_states), hidden)
    log_prob = found.log_prob(batch.state[hidden])
    tree = hidden.nonzero()[:, 0]
    return log_prob.new_zeros(hidden.size(0)).index_add(0, tree, log_prob)


def elbo(
    denoiser: SlotDenoiser,
    batch: SlotBatch,
    slots: Tensor,
    num_draws: int,
    rng: torch.Generator | None,
) -> Tensor:
    r"""A lower bound of the log-likelihood of the states of some slots given all
    others, ``[B]``: exact for trees with at most :obj:`EXACT_SLOTS` such slots,
    and an unbiased estimate of the bound for larger ones.

    Args:
        denoiser (SlotDenoiser): The model.
        batch (SlotBatch): Trees without masked slots.
        slots (torch.Tensor): The slots that are diffused, ``[B, T]``.
        num_draws (int): The number of masks of a large tree.
        rng (torch.Generator, optional): The source of randomness.
    """
    out = torch.zeros(slots.size(0), device=slots.device)
    small = slots.sum(dim=1) <= EXACT_SLOTS
    rows = small.nonzero().view(-1)
    for hidden, weight in every_mask(slots[rows]):
        used = (weight > 0).nonzero().view(-1)
        part, hidden = batch.rows(rows[used]), hidden[used]
        log_prob = weight[used] * masked_log_prob(denoiser, part, hidden)
        out = out.index_add(0, rows[used], log_prob)
    rows = (~small).nonzero().view(-1)
    if rows.numel():
        part = batch.rows(rows)
        for i in range(num_draws):  # the sizes of the masks of a tree are stratified
            place = torch.rand(rows.numel(), generator=rng, device=slots.device)
            hidden, weight = draw_masks(slots[rows], (i + place) / num_draws, rng)
            log_prob = weight * masked_log_prob(denoiser, part, hidden)
            out = out.index_add(0, rows, log_prob / num_draws)
    return out


def unmask(
    denoiser: SlotDenoiser,
    batch: SlotBatch,
    slots: Tensor,
    steps: int | None,
    rng: torch.Generator | None,
) -> Tensor:
    r"""Draws the states of some slots given all others, in a random order, and
    returns all states, ``[B, T]``.

    Args:
        denoiser (SlotDenoiser): The model.
        batch (SlotBatch): The trees. The states of :obj:`slots` do not matter.
        slots (torch.Tensor): The slots to draw, ``[B, T]``.
        steps (int, optional): The number of steps. Slots that are drawn in the
            same step are independent of each other given the earlier ones. By
            default, each step draws one slot. (default: :obj:`None`)
        rng (torch.Generator, optional): The source of randomness.
    """
    order, total = random_order(slots, rng), slots.sum(dim=1)
    most = int(total.max()) if total.numel() else 0
    steps = most if steps is None else min(steps, most)
    state = batch.state.masked_fill(slots, denoiser.num_states)
    for step in range(steps):
        begin, end = total * step // steps, total * (step + 1) // steps
        rows = (end > begin).nonzero().view(-1)
        now = slots & (order >= begin[:, None]) & (order < end[:, None])
        part = replace(batch, state=state).rows(rows)
        state[now] = denoiser(part, now[rows]).sample(rng)
    return state
