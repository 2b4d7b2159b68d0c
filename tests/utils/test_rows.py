import math

import pytest
import torch

from torch_geometric_cgt.utils.rows import (
    clip_rows,
    proximity_order,
    rank_among_equals,
    row_norms,
)


def test_ranks_by_hand():
    assert rank_among_equals(torch.tensor([5, 2, 5, 5, 2, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    assert rank_among_equals(torch.tensor([], dtype=torch.long)).tolist() == []


def test_clipped_rows():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(clip_rows(x, 1.0), expected)
    assert torch.allclose(clip_rows(x.to_sparse(), 1.0).to_dense(), expected)


def test_norms_of_dense_and_sparse_counts_are_the_nearest_numbers():
    """Noisy medians count norms below the root of eight: equal rows must be on one side of it."""
    counts = 3 * torch.ones(300, 300).tril()
    expected = [math.sqrt(9 * number) for number in range(1, 301)]
    for rows in (counts, counts.to_sparse(), counts.to_sparse_csr(), counts.double().to_sparse()):
        assert row_norms(rows).tolist() == expected


@pytest.mark.parametrize('num_points', [0, 1, 7, 9, 1000])
def test_every_point_once(num_points):
    points = torch.randn(num_points, 3, generator=torch.Generator().manual_seed(0))
    assert sorted(proximity_order(points).tolist()) == list(range(num_points))


def test_consecutive_points_are_near():
    points = torch.randn(1024, 2, generator=torch.Generator().manual_seed(0))
    cells = points[proximity_order(points)].view(32, 32, 2)
    within = float(cells.var(dim=1).sum(dim=1).mean())
    assert within < 0.15 * float(points.var(dim=0).sum())


def test_equal_points_do_not_matter():
    assert sorted(proximity_order(torch.ones(100, 2)).tolist()) == list(range(100))
