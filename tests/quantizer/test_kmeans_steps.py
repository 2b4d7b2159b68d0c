from itertools import product

import numpy as np
import pytest
import torch

from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.quantizer import cluster_means
from torch_geometric_cgt.quantizer import kmeans_steps as module
from torch_geometric_cgt.quantizer.kmeans_steps import (
    assign_by_flow,
    assign_greedily,
    assign_recursively,
    nearest_center,
    squared_distance,
)

X = torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 4.0]])
LABELS = torch.tensor([0, 0, 1, 1])
MEANS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.5, 2.0]])


@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
@pytest.mark.parametrize('block', [1, 3, 100])
def test_by_hand(dtype, layout, block, monkeypatch):
    monkeypatch.setattr(module, 'rows_per_block', lambda _: block)
    x = X.to(dtype)
    x = {'dense': x, 'coo': x.to_sparse(), 'csr': x.to_sparse_csr()}[layout]
    out = cluster_means(x, LABELS, 2)
    assert out.dtype == dtype and out.layout == torch.strided
    assert torch.equal(out, MEANS.to(dtype))
    assert torch.equal(cluster_means(x, LABELS.numpy(), 2), out)


def test_entries_that_occur_twice_are_summed():
    index = torch.tensor([[0, 0, 1], [0, 0, 1]])
    x = torch.sparse_coo_tensor(index, torch.tensor([1.0, 2.0, 4.0]), (2, 2))
    assert cluster_means(x, torch.tensor([0, 1]), 2).tolist() == [[3.0, 0.0], [0.0, 4.0]]


def test_half_precision_is_summed_in_double():
    x = torch.full((100_000, 1), 3.0, dtype=torch.float16)  # The sum is far beyond float16.
    assert cluster_means(x, torch.zeros(100_000, dtype=torch.long), 1).tolist() == [[3.0]]


@pytest.mark.parametrize(
    'labels, m, message',
    [
        ([0, 0, 1, 1], 3, r'got 1 empty of 3'),
        ([0, 0, 1, 2], 2, r"below 'num_clusters' = 2 \(got 2\)"),
        ([0, 0, 1], 2, r'got shape \[3\]'),
        ([0, 0, 1, -1], 2, r'below 0 \(got -1\)'),
        ([0, 0, 1, 1], 0, r"'num_clusters' must be a positive integer \(got 0\)"),
    ],
)
def test_bad_labels(labels, m, message):
    with pytest.raises(ValueError, match=message):
        cluster_means(X, torch.tensor(labels), m)


def test_bad_layout():
    with pytest.raises(ValueError, match='got layout'):
        cluster_means(X.to_sparse_csc(), LABELS, 2)


def test_refuses_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr('torch_geometric_cgt.utils.checks.available_memory', lambda _: 10)
    with pytest.raises(NotEnoughMemoryError, match="'num_clusters'"):
        cluster_means(X, LABELS, 2)


def test_squared_distance():
    dist = squared_distance(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0]]))
    assert dist.tolist() == [[25.0], [0.0]]


@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
@pytest.mark.parametrize('offset', [0.0, 1e4])
@pytest.mark.parametrize('block', [1, 7, 100])
def test_nearest_center_by_definition(layout, offset, block, monkeypatch):
    monkeypatch.setattr(module, 'rows_per_block', lambda _: block)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(60, 5, generator=rng, dtype=torch.float64) + offset
    centers = torch.randn(9, 5, generator=rng, dtype=torch.float64) + offset
    expected = torch.cdist(x, centers, compute_mode='donot_use_mm_for_euclid_dist').argmin(dim=1)
    x = {'dense': x, 'coo': x.to_sparse(), 'csr': x.to_sparse_csr()}[layout]
    assert torch.equal(nearest_center(x, centers), expected)


def test_nearest_center_takes_the_type_of_the_rows():
    x, centers = torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [4.0]])
    for dtype in (torch.float16, torch.float32, torch.float64, torch.int64):
        for other in (torch.float32, torch.float64):
            assert nearest_center(x.to(dtype), centers.to(other)).tolist() == [0, 1]


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
