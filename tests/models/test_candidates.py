"""Selections of candidates: drawn by their weights, and balanced."""

from dataclasses import replace

import torch

from tests.helpers.view_trees import SIZE, pool_of, trees_with_signal
from torch_geometric_cgt.models.candidates import CandidatePool, is_train


def test_candidates_are_chosen_in_proportion_to_their_weights():
    trees = trees_with_signal(0.5, 0.5, 0, n=40_000)
    pool = CandidatePool(replace(trees, y=torch.zeros(40_000).long()), 4, 0)
    score = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().repeat(10_000)
    chosen = pool.choose(score, draw=0)
    assert torch.equal(chosen // 4, torch.arange(10_000))  # one of each group
    share = torch.bincount(chosen % 4) / 10_000
    assert torch.allclose(share, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.02)
    assert torch.equal(chosen, pool.choose(score, draw=0))
    assert not torch.equal(chosen, pool.choose(score, draw=1))


def test_a_balanced_selection_has_its_expected_means_in_every_label_and_split():
    pool = pool_of(0.4, 0.3, groups=600)
    rng = torch.Generator().manual_seed(3)
    statistics = torch.randn(len(pool.trees), 5, generator=rng)
    score = torch.randn(len(pool.trees), generator=rng)
    chance = score.view(-1, SIZE).softmax(dim=1)
    expected = (chance[..., None] * statistics.view(-1, SIZE, 5)).sum(dim=1)  # [G, 5]
    cell = 2 * pool.trees.y[::SIZE] + is_train(pool.trees)[::SIZE]

    def error(chosen, rows):
        return float((statistics[chosen] - expected)[rows].sum(dim=0).square().mean().sqrt())

    balanced = [pool.choose(score, draw, statistics) for draw in range(4)]
    free = [pool.choose(score, draw) for draw in range(4)]
    for chosen in balanced:
        assert torch.equal(chosen // SIZE, torch.arange(pool.num_groups))  # one of each group
    for rows in [torch.ones_like(cell) > 0, *(cell == c for c in cell.unique())]:
        near, far = (sum(error(c, rows) for c in kept) for kept in (balanced, free))
        assert near < 0.4 * far
    assert torch.equal(balanced[0], pool.choose(score, 0, statistics))
    assert not torch.equal(balanced[0], balanced[1])


def test_a_balanced_selection_still_draws_by_the_weights():
    """Balance is about sums; it prefers no candidate of a group."""
    trees = trees_with_signal(0.5, 0.5, 0, n=40_000)
    pool = CandidatePool(replace(trees, y=torch.zeros(40_000).long()), 4, 0)
    score = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().repeat(10_000)
    statistics = torch.randn(40_000, 3, generator=torch.Generator().manual_seed(0))
    share = torch.bincount(pool.choose(score, 0, statistics) % 4) / 10_000
    assert torch.allclose(share, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.02)
