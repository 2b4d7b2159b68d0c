"""Sums of rows on a grid: what one row can do to them, and the arithmetic of rows."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.audit.epsilon_bounds import epsilon_lower_bound
from torch_geometric_cgt.privacy.mechanisms import (
    check_index,
    clip_rows,
    noisy_means,
    row_norms,
    sums_on_grid,
)

FINE = 2.0**-30


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def lengths(steps, grid):
    """The length of each row of integer steps, with exact sums of squares."""
    return [math.sqrt(sum(int(v) ** 2 for v in row)) * grid for row in steps.tolist()]


def test_lower_bound_of_equal_and_of_disjoint_results():
    same = torch.randn(10_000, generator=rng())
    assert epsilon_lower_bound(same, same.flip(0), 1e-3) < 0.1
    assert epsilon_lower_bound(same, same + 100, 1e-3) > 6
    with pytest.raises(ValueError, match=r'got 2 and 9'):
        epsilon_lower_bound(torch.zeros(2), torch.zeros(9), 0.1)


@pytest.mark.parametrize('layout', [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_sums_by_hand(layout):
    x = torch.tensor([[3.0, 4.0], [0.6, 0.0], [0.0, 0.0], [9.0, 9.0]])
    x = x if layout == torch.strided else x.to_sparse(layout=layout)
    sums = sums_on_grid(x, torch.tensor([0, 0, 1, -1]), 2, 1.0, FINE)
    assert sums.dtype == torch.long
    expected = torch.tensor([[1.2, 0.8], [0.0, 0.0]]).double()
    assert torch.allclose(sums.double() * FINE, expected, atol=1e-6)


def test_rows_are_rounded_towards_zero():
    x = torch.tensor([[0.3, -0.3], [0.3, -0.3], [-0.26, 0.24]])
    sums = sums_on_grid(x, torch.tensor([0, 0, 0]), 1, 1.0, 0.25)
    assert sums.tolist() == [[1, -2]]


values = st.floats(-1e6, 1e6, width=32)
rows = st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6)
bounds = st.floats(0.01, 10)
grids = st.sampled_from([2.0**-40, 2.0**-20, 1e-3, 0.3])


@settings(max_examples=100, deadline=None)
@given(rows, bounds, grids)
def test_rounding_makes_no_row_longer(rows, bound, grid):
    x = torch.tensor(rows)
    each = sums_on_grid(x, torch.arange(len(rows)), len(rows), bound, grid)
    for found, norm in zip(lengths(each, grid), row_norms(x).tolist(), strict=True):
        assert found <= min(bound, norm * (1 + 1e-12))


@settings(max_examples=100, deadline=None)
@given(rows, bounds, grids, st.data())
def test_no_row_moves_a_sum_by_more_than_the_bound(rows, bound, grid, data):
    x, index = torch.tensor(rows), torch.arange(len(rows)) % 2
    index_without = index.clone()
    index_without[data.draw(st.integers(0, len(rows) - 1))] = -1
    full, less = (sums_on_grid(x, i, 2, bound, grid) for i in (index, index_without))
    (moved,) = lengths((full - less).view(1, -1), grid)
    assert moved <= bound


@pytest.mark.parametrize('layout', [torch.strided, torch.sparse_coo])
def test_the_longest_row_reaches_the_bound(layout):
    """So that the tests above could fail."""
    x = torch.tensor([[30.0, 40.0]])
    x = x if layout == torch.strided else x.to_sparse()
    (found,) = lengths(sums_on_grid(x, torch.tensor([0]), 1, 2.5, FINE), FINE)
    assert 2.5 * (1 - 1e-8) < found <= 2.5


def test_clipped_rows():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(clip_rows(x, 1.0), expected)
    assert torch.allclose(clip_rows(x.to_sparse(), 1.0).to_dense(), expected)


def test_means_survive_counts_below_one():
    sums = torch.tensor([[4.0, 0.0], [0.5, 0.0], [-3.0, 4.0]])
    means = noisy_means(sums, torch.tensor([8, -2, 0]), 1.0)
    assert torch.allclose(means, torch.tensor([[0.5, 0.0], [0.5, 0.0], [-0.6, 0.8]]))


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: check_index(torch.tensor([3]), 3), r"below 'num_bins' = 3 .got 3"),
        (lambda: check_index(torch.tensor([0.5]), 3), r'vector of integers'),
        (lambda: check_index(torch.tensor([0]), 0), r"'num_bins' must be at least 1"),
        (lambda: _sums(torch.zeros(3, 2)), r'for each of the 2 bins .got \[3, 2\]'),
        (lambda: _sums(torch.tensor([[0.0], [math.nan]])), r"'x' must be finite"),
        (lambda: _sums(torch.zeros(2, 2), bound=0.0), r"'bound' must be positive"),
        (lambda: _sums(torch.zeros(2, 2), grid=math.inf), r"'grid' must be positive"),
        (lambda: _sums(torch.zeros(2, 2), grid=1e-20), r"'grid' is too small"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def _sums(x, bound=1.0, grid=1.0):
    return sums_on_grid(x, torch.tensor([0, 0]), 1, bound, grid)
