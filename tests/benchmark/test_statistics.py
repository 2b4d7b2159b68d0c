import pytest
import torch
from scipy import stats

from torch_geometric_cgt.benchmark.statistics import (
    agreement,
    duplicates,
    wasserstein,
    zero_vectors,
)


def test_counts_by_hand():
    index = torch.tensor([[0, 1, 1, 1, 9], [0, 9, 9, 9, 9], [3, 4, 3, 4, 5]])
    assert zero_vectors(index, null=9).tolist() == [1, 4, 0]
    assert duplicates(index, null=9).tolist() == [2, 0, 2]


def test_wasserstein_equals_scipy():
    rng = torch.Generator().manual_seed(0)
    a, b = torch.randint(10, (50,), generator=rng), torch.randint(14, (80,), generator=rng)
    assert wasserstein(a, b) == pytest.approx(stats.wasserstein_distance(a, b))
    assert wasserstein(a, a) == 0


def test_agreement_equals_scipy():
    x, y = [0.8, 0.7, 0.7, 0.9], [0.75, 0.72, 0.6, 0.8]
    out = agreement(x, y)
    assert out['pearson'] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert out['spearman'] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert out['mse'] == pytest.approx((0.0025 + 0.0004 + 0.01 + 0.01) / 4)
    assert out['max_abs'] == pytest.approx(0.1)


def test_undefined_correlations_are_said_to_be():
    assert agreement([0.8], [0.7])['pearson'] is None
    assert agreement([0.8, 0.8], [0.7, 0.6])['spearman'] is None
