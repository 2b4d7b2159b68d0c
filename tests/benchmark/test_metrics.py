import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from torch_geometric_cgt.benchmark.metrics import (
    MEASURES,
    Estimate,
    Pair,
    agreement,
    duplicates,
    estimate,
    histograms,
    measure,
    top1,
    wasserstein,
    zero_vectors,
)
from torch_geometric_cgt.data import TokenTrees, TreeShape

scores = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12
)  # many ties


def test_agreement_by_hand():
    out = agreement([0.8, 0.7, 0.7, 0.9], [0.75, 0.72, 0.6, 0.8])
    assert out['mse'] == pytest.approx((0.0025 + 0.0004 + 0.01 + 0.01) / 4)
    assert out['max_abs'] == pytest.approx(0.1)
    # Deviations from the means 0.775 and 0.7175, times 400.
    x, y = [10, -30, -30, 50], [13, 1, -47, 33]
    top = sum(a * b for a, b in zip(x, y, strict=True))
    assert top == 130 - 30 + 1410 + 1650
    assert out['pearson'] == pytest.approx(3160 / (4400 * 3468) ** 0.5)
    # Ranks 3, 1.5, 1.5, 4 and 3, 2, 1, 4.
    assert out['spearman'] == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_kendall_with_ties_by_hand():
    # Of the six pairs of models, three agree, one does not, one is tied in
    # the first list and another one in the second: (3 - 1) / sqrt(5 * 5).
    out = agreement([0.1, 0.2, 0.2, 0.3], [0.1, 0.3, 0.2, 0.2])
    assert out['kendall'] == pytest.approx(2 / 5)
    assert agreement([1, 2, 3], [2, 4, 9])['kendall'] == pytest.approx(1)
    assert agreement([1, 2, 3], [9, 4, 2])['kendall'] == pytest.approx(-1)


@given(scores)
def test_agreement_is_symmetric_and_equals_scipy(pairs):
    x, y = [a / 20 for a, _ in pairs], [b / 20 for _, b in pairs]
    out = agreement(x, y)
    assert out == pytest.approx(agreement(y, x))
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert out['pearson'] is out['spearman'] is out['kendall'] is None
        return
    assert out['pearson'] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert out['spearman'] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert out['kendall'] == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)


@given(scores)
def test_equal_scores_agree_in_everything(pairs):
    x = [a / 20 for a, _ in pairs]
    graphs = [b % 3 for _, b in pairs]
    out = agreement(x, x)
    assert out['mse'] == out['max_abs'] == 0
    assert all(out[name] in (None, pytest.approx(1)) for name in ('pearson', 'kendall'))
    assert top1(graphs, x, x) in (None, 1)


def ranks(x):
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[inverse]


@given(scores)
def test_correlations_by_their_definitions(pairs):
    x, y = (np.array(values) / 20 for values in zip(*pairs, strict=True))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    out = agreement(x, y)
    a, b = (np.sign(v[:, None] - v[None]) for v in (x, y))
    tau = (a * b).sum() / np.sqrt(np.abs(a).sum() * np.abs(b).sum())
    assert out['pearson'] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert out['spearman'] == pytest.approx(np.corrcoef(ranks(x), ranks(y))[0, 1], abs=1e-12)
    assert out['kendall'] == pytest.approx(tau, abs=1e-12)


def test_undefined_correlations_are_said_to_be():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert agreement([0.8], [0.7])['pearson'] is None
        assert agreement([0.8, 0.8], [0.7, 0.6])['pearson'] is None
        assert agreement([0.8, 0.8], [0.7, 0.6])['spearman'] is None
        assert agreement([0.8, 0.8], [0.7, 0.6])['kendall'] is None


def test_order_of_addition_makes_no_difference():
    runs = [0.1, 0.2, 0.3]
    one, two = sum(runs) / 3, sum(reversed(runs)) / 3
    assert one != two
    assert agreement([one, two], [0.5, 0.6])['pearson'] is None


@pytest.mark.parametrize(
    'original, generated, share',
    [
        ([0.9, 0.8, 0.7], [0.6, 0.5, 0.4], 1),
        ([0.9, 0.8, 0.7], [0.5, 0.6, 0.4], 0),
        ([0.9, 0.9, 0.7], [0.5, 0.6, 0.4], 1),  # one of the two that are best
        ([0.9, 0.8, 0.7], [0.6, 0.6, 0.4], 1 / 2),  # one of two is drawn
        ([0.9, 0.8, 0.7], [0.6, 0.6, 0.6], 1 / 3),  # a guess
        ([0.9, 0.9, 0.7], [0.6, 0.6, 0.6], 2 / 3),
        ([0.9], [0.6], None),  # no choice
    ],
)
def test_top1_by_hand(original, generated, share):
    graphs = ['Cora'] * len(original)
    found = top1(graphs, original, generated)
    assert found == (None if share is None else pytest.approx(share))


def test_top1_is_a_mean_over_graphs_with_a_choice():
    graphs = ['a', 'b', 'a', 'b', 'b', 'alone']
    original = [0.9, 0.5, 0.8, 0.6, 0.4, 0.1]
    generated = [0.7, 0.9, 0.6, 0.8, 0.7, 0.2]
    assert top1(graphs, original, generated) == pytest.approx((1 + 0) / 2)


def test_measures_are_of_means_over_seeds():
    pairs = [
        Pair(('Cora', '0'), {0: (0.8, 0.6), 1: (0.6, 0.8)}),  # means 0.7 and 0.7
        Pair(('Cora', '0'), {0: (0.5, 0.4)}),
    ]
    out = measure(pairs)
    assert tuple(out) == MEASURES
    assert out['mse'] == pytest.approx(0.005)
    assert out['max_abs'] == pytest.approx(0.1)
    assert out['top1'] == 1


def test_interval_of_two_seeds_by_hand():
    # Three ways to draw: seed 0 twice, both, seed 1 twice; 1/4, 1/2, 1/4 of the draws.
    out = estimate([Pair(('Cora',), {0: (0.5, 0.6), 1: (0.5, 0.8)})])
    assert out['mse'].value == pytest.approx(0.04)
    assert (out['mse'].low, out['mse'].high) == pytest.approx((0.01, 0.09))
    half = estimate([Pair(('Cora',), {0: (0.5, 0.6), 1: (0.5, 0.8)})], level=0.4)['mse']
    assert (half.low, half.high) == pytest.approx((0.04, 0.04))
    assert out['pearson'] == Estimate(None)


def noisy_pairs(rng, seeds, bias=0.1, noise=0.02, graphs=3, models=4):
    return [
        Pair(
            (str(graph),),
            {
                seed: (level + noise * rng.normal(), level - bias + noise * rng.normal())
                for seed in range(seeds)
            },
        )
        for graph in range(graphs)
        for level in rng.uniform(0.3, 0.9, models)
    ]


def test_interval_is_reproducible_and_holds_the_value():
    pairs = noisy_pairs(np.random.default_rng(0), seeds=3)
    out = estimate(pairs, seed=1)
    assert out == estimate(pairs, seed=1)
    for found in out.values():
        assert found.low <= found.value <= found.high
    more = noisy_pairs(np.random.default_rng(0), seeds=9)
    assert estimate(more, seed=1, resamples=50) != estimate(more, seed=2, resamples=50)


def test_interval_covers_the_truth():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(40):
        found = estimate(noisy_pairs(rng, seeds=8, graphs=1), resamples=40)['mse']
        covered += found.low <= 0.01 <= found.high  # the squared bias
    assert covered >= 0.8 * 40


def test_no_interval_where_a_pair_has_one_seed():
    pairs = [Pair(('Cora',), {0: (0.8, 0.7), 1: (0.8, 0.6)}), Pair(('Cora',), {0: (0.7, 0.5)})]
    out = estimate(pairs)
    assert out['mse'].value is not None
    assert all(found.low is None and found.high is None for found in out.values())


def test_pairs_with_other_seeds_are_drawn_by_themselves():
    one = Pair(('Cora',), {0: (0.5, 0.6), 1: (0.5, 0.8)})
    two = Pair(('PubMed',), {5: (0.5, 0.6), 6: (0.5, 0.8)})
    found = estimate([one, two], level=0.999)['mse']
    assert (found.low, found.high) == pytest.approx((0.01, 0.09))


def test_no_pairs_no_measures():
    assert estimate([]) == dict.fromkeys(MEASURES, Estimate(None))


TREES = TokenTrees(
    torch.tensor([[0, 1, 1, 1, 9], [0, 9, 9, 9, 9], [3, 4, 3, 4, 5]]),
    torch.zeros(3).long(),
    torch.ones(3).long(),
    9,
    1,
    TreeShape((4,)),
)


def test_counts_by_hand():
    assert zero_vectors(TREES).tolist() == [1, 4, 0]
    assert duplicates(TREES).tolist() == [2, 0, 2]
    found = histograms(duplicates, {'original': TREES, 'generated': TREES.select(slice(1, 3))})
    assert found == {'original': [1, 0, 2, 0, 0], 'generated': [1, 0, 1, 0, 0]}


def test_wasserstein_equals_that_of_samples():
    rng = torch.Generator().manual_seed(0)
    a, b = torch.randint(10, (50,), generator=rng), torch.randint(14, (80,), generator=rng)
    counts = [torch.bincount(sample).tolist() for sample in (a, b)]
    p, q = (np.pad(np.array(c) / sum(c), (0, 14 - len(c))) for c in counts)
    distance = wasserstein(*counts)
    assert distance == pytest.approx(stats.wasserstein_distance(a, b), abs=1e-12)
    assert distance == pytest.approx(np.abs((p - q).cumsum()).sum(), abs=1e-12)
    assert wasserstein(counts[0], counts[0]) == 0
