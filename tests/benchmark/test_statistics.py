import pytest
import torch
from scipy import stats

from torch_geometric_cgt.benchmark.statistics import duplicates, wasserstein, zero_vectors


def test_counts_by_hand():
    index = torch.tensor([[0, 1, 1, 1, 9], [0, 9, 9, 9, 9], [3, 4, 3, 4, 5]])
    assert zero_vectors(index, null=9).tolist() == [1, 4, 0]
    assert duplicates(index, null=9).tolist() == [2, 0, 2]


def test_wasserstein_equals_scipy():
    rng = torch.Generator().manual_seed(0)
    a, b = torch.randint(10, (50,), generator=rng), torch.randint(14, (80,), generator=rng)
    assert wasserstein(a, b) == pytest.approx(stats.wasserstein_distance(a, b))
    assert wasserstein(a, a) == 0
