"""Masks of slots: their sizes, their weights, and the order of unmasking."""

import torch

from tests.helpers.enumerated import over_orders
from torch_geometric_cgt.baselines import masked_slots
from torch_geometric_cgt.baselines.masked_slots import draw_masks, elbo, every_mask, unmask
from torch_geometric_cgt.baselines.slot_denoiser import SlotBatch, SlotDenoiser
from torch_geometric_cgt.data import TreeShape

SHAPE = TreeShape.of([3])


def strong_denoiser(copies=True, num_states=3) -> SlotDenoiser:
    """A denoiser whose predictions depend a lot on what it sees."""
    torch.manual_seed(0)
    denoiser = SlotDenoiser(SHAPE, [num_states] * 2, 2, 0, 8, 1, 2, 0.0, copies).eval()
    for parameter in denoiser.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return denoiser


def trees(num_trees: int) -> SlotBatch:
    rng = torch.Generator().manual_seed(1)
    exists = torch.rand(num_trees, 4, generator=rng) < 0.7
    exists[:, 0] = True
    state = torch.randint(3, (num_trees, 4), generator=rng)
    zeros = torch.zeros(num_trees, dtype=torch.long)
    return SlotBatch(state, exists, torch.full_like(state, -1), zeros, zeros)


def test_sizes_of_masks_are_uniform():
    slots = torch.tensor([[True, False, True, True, True]]).repeat(4000, 1)
    rng = torch.Generator().manual_seed(0)
    hidden, weight = draw_masks(slots, torch.rand(4000, generator=rng), rng)
    size = hidden.sum(dim=1)
    assert not hidden[:, 1].any()
    assert torch.equal(weight, 4 / size)
    shares = torch.bincount(size, minlength=5) / 4000
    torch.testing.assert_close(
        shares, torch.tensor([0.0, 0.25, 0.25, 0.25, 0.25]), atol=0.03, rtol=0
    )
    # Given its size, each slot is as likely to be masked as any other.
    pairs = hidden[size == 2].float().mean(dim=0)
    torch.testing.assert_close(pairs[[0, 2, 3, 4]], torch.full((4,), 0.5), atol=0.06, rtol=0)


def test_all_masks_weigh_as_much_as_random_ones():
    slots = torch.tensor([[True, True, False, True], [False, True, False, False], [False] * 4])
    value = torch.tensor([[0.5, 2.0, 7.0, 1.0], [1.0, 3.0, 1.0, 1.0], [1.0] * 4])
    total = sum(weight * (value * hidden).sum(dim=1) for hidden, weight in every_mask(slots))
    # If what is masked does not matter, every order gives the sum over all slots.
    torch.testing.assert_close(total, torch.tensor([3.5, 3.0, 0.0]))


def test_the_bound_is_the_mean_over_orders_and_not_above_the_likelihood():
    denoiser, batch = strong_denoiser(), trees(40)
    exact, mean = over_orders(denoiser, batch, batch.exists)
    bound = elbo(denoiser, batch, batch.exists, 1, None).detach()
    torch.testing.assert_close(bound, mean, atol=1e-5, rtol=1e-5)
    assert bool((bound <= exact + 1e-5).all())
    assert float((exact - bound).max()) > 0.05


def test_random_masks_estimate_the_bound(monkeypatch):
    denoiser, batch = strong_denoiser(), trees(12)
    bound = elbo(denoiser, batch, batch.exists, 1, None).detach()
    monkeypatch.setattr(masked_slots, 'EXACT_SLOTS', 0)
    rng = torch.Generator().manual_seed(0)
    estimate = elbo(denoiser, batch, batch.exists, 400, rng).detach()
    torch.testing.assert_close(estimate, bound, atol=0.15, rtol=0.03)


def test_unmasking_keeps_what_is_given_and_one_step_ignores_the_other_slots():
    denoiser = strong_denoiser()
    batch = trees(1).rows(torch.zeros(6000, dtype=torch.long))
    slots = torch.tensor([[False, True, True, False]]).repeat(6000, 1)
    batch.exists[:] = True
    given = batch.state.clone()
    joint = {}
    for steps in (None, 1):
        rng = torch.Generator().manual_seed(0)
        state = unmask(denoiser, batch, slots, steps, rng)
        assert torch.equal(state[:, [0, 3]], given[:, [0, 3]])
        assert int(state.max()) < denoiser.num_states  # the mask is never drawn
        pair = torch.bincount(state[:, 1] * 3 + state[:, 2], minlength=9).view(3, 3) / 6000
        joint[steps] = pair, pair.sum(dim=1, keepdim=True) * pair.sum(dim=0, keepdim=True)
    assert torch.equal(batch.state, given)
    assert float((joint[1][0] - joint[1][1]).abs().max()) < 0.015
    assert float((joint[None][0] - joint[None][1]).abs().max()) > 0.03
