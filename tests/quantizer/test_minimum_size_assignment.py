from itertools import product

import numpy as np
import pytest
import torch

from torch_geometric_cgt.quantizer.minimum_size_assignment import (
    assign_by_flow,
    assign_greedily,
    assign_recursively,
)


def best_by_trying_all(clusters, costs, num_clusters, size_min):
    num_rows, p = clusters.shape
    best = np.inf
    for choice in product(range(p), repeat=num_rows):
        rows = np.arange(num_rows)
        sizes = np.bincount(clusters[rows, choice], minlength=num_clusters)
        if sizes.min() >= size_min:
            best = min(best, costs[rows, choice].sum())
    return best


def test_takes_the_cheapest_where_the_minimum_does_not_bind():
    clusters = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    costs = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 1.0], [1.0, 9.0]])
    assert assign_by_flow(clusters, costs, 2, 1).tolist() == [0, 1, 0, 1]


def test_minimum_moves_the_row_with_least_regret():
    clusters = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    costs = np.array([[0.0, 9.0], [0.0, 9.0], [2.0, 0.0], [1.0, 0.0]])
    assert assign_by_flow(clusters, costs, 2, 1).tolist() == [0, 0, 0, 1]
    assert assign_by_flow(clusters, costs, 2, 2).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize('seed', range(20))
def test_is_optimal(seed):
    rng = np.random.default_rng(seed)
    start = np.array([0, 0, 1, 1, 2, 2, 2])
    clusters = np.stack([start, (start + 1) % 3, (start + 2) % 3], axis=1)
    costs = rng.exponential(size=(7, 3)) * 10.0 ** rng.integers(-8, 8)
    for size_min in (1, 2):
        label = assign_by_flow(clusters, costs, 3, size_min)
        assert np.bincount(label, minlength=3).min() >= size_min
        total = costs[(clusters == label[:, None])].sum()
        assert total == pytest.approx(best_by_trying_all(clusters, costs, 3, size_min), rel=1e-6)


def test_equal_costs():
    clusters = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    label = assign_by_flow(clusters, np.ones((4, 2)), 2, 2)
    assert np.bincount(label).tolist() == [2, 2]
    assert assign_by_flow(clusters[:, [0, 0]], np.ones((4, 2)), 2, 2).tolist() == [0, 0, 1, 1]


def test_impossible_is_an_error():
    with pytest.raises(RuntimeError, match='first choice of each row'):
        assign_by_flow(np.zeros((4, 1), dtype=np.int64), np.ones((4, 1)), 2, 1)


@pytest.mark.parametrize('seed', range(30))
def test_greedy_respects_each_minimum(seed):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(60, 2)))
    centers = torch.from_numpy(5 * rng.normal(size=(5, 2)))
    size_min = torch.from_numpy(rng.integers(0, 13, 5))
    labels = assign_greedily(x, centers, size_min)
    assert bool((torch.bincount(labels, minlength=5) >= size_min).all())


def test_greedy_moves_the_row_with_least_regret():
    x = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    centers = torch.tensor([[0.0], [10.0]])
    assert assign_greedily(x, centers, torch.tensor([1, 1])).tolist() == [0, 0, 0, 1]
    assert assign_greedily(x, centers, torch.tensor([1, 0])).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    'n, m, k',
    [(1000, 100, 10), (1009, 100, 10), (1000, 33, 10), (70, 70, 1), (70, 1, 70), (4000, 40, 100)],
)
@pytest.mark.parametrize('equal', [False, True])
def test_recursive_splits_respect_the_minimum(n, m, k, equal):
    x = torch.ones(n, 3) if equal else torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    labels = assign_recursively(x, m, k, torch.Generator().manual_seed(0), torch.device('cpu'))
    sizes = torch.bincount(labels)
    assert sizes.numel() == m and int(sizes.min()) >= k and int(sizes.sum()) == n
