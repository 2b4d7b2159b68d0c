from itertools import product

import numpy as np
import pytest
import torch

from torch_geometric_cgt.quantizer.distance import squared_distance
from torch_geometric_cgt.quantizer.flow import flow_assign
from torch_geometric_cgt.quantizer.greedy import greedy_assign


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
    assert flow_assign(clusters, costs, 2, 1).tolist() == [0, 1, 0, 1]


def test_minimum_moves_the_row_with_least_regret():
    clusters = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    costs = np.array([[0.0, 9.0], [0.0, 9.0], [2.0, 0.0], [1.0, 0.0]])
    assert flow_assign(clusters, costs, 2, 1).tolist() == [0, 0, 0, 1]
    assert flow_assign(clusters, costs, 2, 2).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize('seed', range(20))
def test_is_optimal(seed):
    rng = np.random.default_rng(seed)
    start = np.array([0, 0, 1, 1, 2, 2, 2])
    clusters = np.stack([start, (start + 1) % 3, (start + 2) % 3], axis=1)
    costs = rng.exponential(size=(7, 3)) * 10.0 ** rng.integers(-8, 8)
    for size_min in (1, 2):
        label = flow_assign(clusters, costs, 3, size_min)
        assert np.bincount(label, minlength=3).min() >= size_min
        total = costs[(clusters == label[:, None])].sum()
        assert total == pytest.approx(best_by_trying_all(clusters, costs, 3, size_min), rel=1e-6)


def test_equal_costs():
    clusters = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    label = flow_assign(clusters, np.ones((4, 2)), 2, 2)
    assert np.bincount(label).tolist() == [2, 2]
    assert flow_assign(clusters[:, [0, 0]], np.ones((4, 2)), 2, 2).tolist() == [0, 0, 1, 1]


def test_impossible_is_an_error():
    with pytest.raises(RuntimeError, match='first choice of each row'):
        flow_assign(np.zeros((4, 1), dtype=np.int64), np.ones((4, 1)), 2, 1)


@pytest.mark.parametrize('seed', range(30))
def test_greedy_respects_each_minimum(seed):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(60, 2)))
    centers = torch.from_numpy(5 * rng.normal(size=(5, 2)))
    size_min = torch.from_numpy(rng.integers(0, 13, 5))
    labels = greedy_assign(x, centers, size_min)
    assert bool((torch.bincount(labels, minlength=5) >= size_min).all())


def test_greedy_moves_the_row_with_least_regret():
    x = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    centers = torch.tensor([[0.0], [10.0]])
    assert greedy_assign(x, centers, torch.tensor([1, 1])).tolist() == [0, 0, 0, 1]
    assert greedy_assign(x, centers, torch.tensor([1, 0])).tolist() == [0, 0, 0, 0]


def test_squared_distance():
    dist = squared_distance(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0]]))
    assert dist.tolist() == [[25.0], [0.0]]
