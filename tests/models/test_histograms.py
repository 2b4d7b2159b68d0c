"""Noisy histograms of trees: what one tree can do to them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.neighbouring_runs import epsilon_lower_bound
from tests.helpers.private_models import NUM_CLASSES, NUM_TOKENS, draw_trees, rng
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.histograms import (
    Layer,
    TreeCounts,
    plan_histograms,
)
from torch_geometric_cgt.models.tree_model import PER_TREE
from torch_geometric_cgt.privacy import Entry, Gaussian, Queries
from torch_geometric_cgt.privacy.accounting import Loss, epsilon_of
from torch_geometric_cgt.privacy.units import CHANGED_ROW


def ask(sigma, generator=None):
    """Queries for one histogram."""
    return Queries([Entry('sequence model', 'trees', PER_TREE, Gaussian(sigma))], generator)


def counts_of(tokens, shape, group):
    for depth in range(1, shape.depth + 1):
        layer = Layer(tokens, shape, depth, NUM_TOKENS)
        yield layer.count_numbers(group, NUM_CLASSES)
        yield layer.count_tokens(group, NUM_CLASSES)
        if depth > 1:
            yield layer.count_returns()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 1000))
def test_no_tree_moves_a_histogram_by_more_than_one(fan_outs, seed):
    shape = TreeShape.of(fan_outs)
    tokens = draw_trees(6, shape, seed)
    tokens[-1] = 0  # a tree without null that fills one bin again and again
    group = torch.arange(6) % NUM_CLASSES
    keep = torch.arange(6)
    hardly = 1e-7  # any noise
    for i in (0, 5):
        rest = keep[keep != i]
        less = counts_of(tokens[rest], shape, group[rest])
        for whole, part in zip(counts_of(tokens, shape, group), less, strict=True):
            moved = whole.noisy('trees', ask(hardly)) - part.noisy('trees', ask(hardly))
            assert float(moved.norm()) <= 1 + 1e-4


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 1000))
def test_no_changed_tree_moves_a_histogram_by_more_than_the_root_of_two(fan_outs, seed):
    shape = TreeShape.of(fan_outs)
    tokens, other = draw_trees(6, shape, seed), draw_trees(6, shape, seed + 5000)
    tokens[-1], other[-1] = 0, 1  # all counts of the tree go from one bin to another
    group = torch.arange(6) % NUM_CLASSES
    for i in (0, 5):
        changed = tokens.clone()
        changed[i] = other[i]
        pairs = zip(counts_of(tokens, shape, group), counts_of(changed, shape, group), strict=True)
        for before, after in pairs:
            moved = before.noisy('trees', ask(1e-7)) - after.noisy('trees', ask(1e-7))
            assert float(moved.norm()) <= CHANGED_ROW + 1e-4


def test_a_histogram_of_trees_keeps_its_claim_and_half_the_noise_does_not():
    """Noise on bins is independent: each pair of bins is one draw, with three trees or two."""
    delta, sigma, draws = 0.02, 1.0, 20_000

    def scores(num_trees, sigma, seed):
        tree = torch.arange(num_trees * draws)
        bins = 2 * (tree % draws)[:, None] + torch.tensor([0, 1])  # two counts of each tree
        counts = TreeCounts(
            tree.repeat_interleave(2), bins.flatten(), tree.numel(), (draws, 2), most=2
        )
        return counts.noisy('trees', ask(sigma, rng(seed))).sum(dim=1)

    claim = epsilon_of([Loss(Gaussian(sigma), 1.0)], delta)[0]
    found = epsilon_lower_bound(scores(3, sigma, 0), scores(2, sigma, 1), delta)
    assert 0.5 * claim < found <= claim
    assert epsilon_lower_bound(scores(3, sigma / 2, 0), scores(2, sigma / 2, 1), delta) > claim


def test_counts_by_hand():
    shape = TreeShape.of([2, 2])
    #                      root, two children, children of each (5 is null)
    tokens = torch.tensor([[0, 1, 5, 0, 2, 5, 5], [3, 5, 5, 5, 5, 5, 5]])
    first, second = (Layer(tokens, shape, depth, NUM_TOKENS) for depth in (1, 2))
    assert first.number.tolist() == [[1], [0]]
    assert second.number.tolist() == [[2, 0], [0, 0]]
    assert second.returns[0].tolist() == [[True, False], [False, False]]  # 0 is above 1
    group = torch.tensor([0, 1])
    tokens_below = second.count_tokens(group, NUM_CLASSES)
    assert (tokens_below.tree.tolist(), tokens_below.bin.tolist()) == ([0], [2])
    assert tokens_below.most == 4
    returns = second.count_returns()
    assert (returns.tree.tolist(), returns.bin.tolist()) == ([0], [3])  # two children, with return


def test_entries_price_one_tree():
    assert all(entry.changes == PER_TREE for entry in plan_histograms(3))
    assert {type(entry.noise) for entry in plan_histograms(3)} == {Gaussian}


def test_entries_of_deeper_trees_share_one_budget():
    totals = [sum(e.share for e in plan_histograms(depth)) for depth in (2, 3, 4)]
    assert totals == pytest.approx(3 * [1.0])
