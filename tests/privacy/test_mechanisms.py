import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.audit.epsilon_bounds import epsilon_lower_bound
from torch_geometric_cgt.privacy import DiscreteGaussian, Gaussian
from torch_geometric_cgt.privacy.accounting import Loss, epsilon_of
from torch_geometric_cgt.privacy.mechanisms import (
    clip_rows,
    noisy_histogram,
    noisy_means,
    noisy_median,
    noisy_sums,
)

DELTA, DRAWS = 0.01, 40_000


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def counts_on_neighbours(sigma):
    """Noise on bins is independent: each bin is one draw. Five rows in it, or four."""
    bins = torch.arange(DRAWS)
    full, less = bins.repeat(5), bins.repeat(4)
    return [
        noisy_histogram(index, DRAWS, sigma, rng(seed)).double()
        for seed, index in enumerate([full, less])
    ]


def sums_on_neighbours(sigma, length=7.0, bound=1.5):
    """Two rows of a bin, one of them too long, or only the other one."""
    bins = torch.arange(DRAWS)
    x = torch.tensor([[0.3, 0.1], [length, 0.0]])
    full = noisy_sums(
        x.repeat_interleave(DRAWS, dim=0), bins.repeat(2), DRAWS, bound, sigma, rng(0)
    )
    less = noisy_sums(x[:1].expand(DRAWS, 2), bins, DRAWS, bound, sigma, rng(1))
    return full[:, 0], less[:, 0]  # the direction in which the rows that differ point


@pytest.mark.parametrize('sigma', [1.0, 2.5])
def test_counts_keep_their_claim_and_half_the_noise_does_not(sigma):
    claim = epsilon_of([Loss(DiscreteGaussian(sigma), 1.0)], DELTA)[0]
    found = epsilon_lower_bound(*counts_on_neighbours(sigma), DELTA)
    assert 0.5 * claim < found <= claim  # close to it: the test could fail
    assert epsilon_lower_bound(*counts_on_neighbours(sigma / 2), DELTA) > claim


@pytest.mark.parametrize('sigma', [1.5, 4.0])
def test_sums_keep_their_claim_and_half_the_noise_does_not(sigma):
    claim = epsilon_of([Loss(Gaussian(sigma), 1.5)], DELTA)[0]
    found = epsilon_lower_bound(*sums_on_neighbours(sigma), DELTA)
    assert 0.5 * claim < found <= claim
    assert epsilon_lower_bound(*sums_on_neighbours(sigma / 2), DELTA) > claim


def test_sums_without_clipping_would_be_found_out():
    claim = epsilon_of([Loss(Gaussian(4.0), 1.5)], DELTA)[0]
    assert epsilon_lower_bound(*sums_on_neighbours(4.0, bound=7.0), DELTA) > claim


def test_lower_bound_of_equal_and_of_disjoint_results():
    same = torch.randn(10_000, generator=rng())
    assert epsilon_lower_bound(same, same.flip(0), 1e-3) < 0.1
    assert epsilon_lower_bound(same, same + 100, 1e-3) > 6
    with pytest.raises(ValueError, match=r'got 2 and 9'):
        epsilon_lower_bound(torch.zeros(2), torch.zeros(9), 0.1)


def test_histogram_by_hand():
    index = torch.tensor([0, 2, 2, -1, 2])
    counts = noisy_histogram(index, 4, 0.125, rng())  # noise is zero but once in 10^13
    assert counts.tolist() == [1, 0, 3, 0]
    assert noisy_histogram(index, 4, 50.0, rng()).tolist() != [1, 0, 3, 0]


@pytest.mark.parametrize('layout', [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_sums_by_hand(layout):
    x = torch.tensor([[3.0, 4.0], [0.6, 0.0], [0.0, 0.0], [9.0, 9.0]])
    x = x if layout == torch.strided else x.to_sparse(layout=layout)
    sums = noisy_sums(x, torch.tensor([0, 0, 1, -1]), 2, 1.0, 1e-7, rng())
    assert torch.allclose(sums, torch.tensor([[1.2, 0.8], [0.0, 0.0]]).double(), atol=1e-6)


def test_the_noise_on_sums_is_as_wide_as_it_says():
    sums = noisy_sums(torch.zeros(3, 50), torch.tensor([0, 1, 2]), 400, 1.0, 2.5, rng())
    assert sums.shape == (400, 50)
    assert abs(float(sums.std()) - 2.5) < 0.05 and abs(float(sums.mean())) < 0.1


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_row_moves_a_sum_by_more_than_the_bound(data):
    """The same noise twice: what is left is what the row did."""
    values = st.floats(-1e6, 1e6, width=32)
    rows = data.draw(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6))
    bound = data.draw(st.floats(0.01, 10))
    x, index = torch.tensor(rows), torch.arange(len(rows)) % 2
    index_without = index.clone()
    index_without[data.draw(st.integers(0, len(rows) - 1))] = -1
    full, less = (noisy_sums(x, i, 2, bound, 2.0, rng()) for i in (index, index_without))
    assert float((full - less).norm()) <= bound * (1 + 1e-12)


def test_median_by_bisection():
    values = torch.linspace(0, 10, 1001)
    assert abs(noisy_median(values, -20, 20, 12, 0.25, rng()) - 5) < 0.05
    found = [noisy_median(values, -20, 20, 8, 30.0, rng(seed)) for seed in range(20)]
    assert max(abs(m - 5) for m in found) < 2 and len(set(found)) > 1
    assert noisy_median(values, 20, 40, 8, 1.0, rng()) < 20.1


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
        (lambda: noisy_histogram(torch.tensor([3]), 3, 1.0), r"below 'num_bins' = 3 .got 3"),
        (lambda: noisy_histogram(torch.tensor([0.5]), 3, 1.0), r'vector of integers'),
        (lambda: noisy_histogram(torch.tensor([0]), 0, 1.0), r"'num_bins' must be at least 1"),
        (lambda: _sums(torch.zeros(3, 2)), r'for each of the 2 bins .got \[3, 2\]'),
        (lambda: _sums(torch.tensor([[0.0], [math.nan]])), r"'x' must be finite"),
        (lambda: _sums(torch.zeros(2, 2), bound=0.0), r"'bound' must be positive"),
        (lambda: _sums(torch.zeros(2, 2), sigma=math.inf), r"'sigma' must be positive"),
        (lambda: _sums(torch.zeros(2, 2), sigma=1e-14), r"'sigma' is too small"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def _sums(x, bound=1.0, sigma=1.0):
    return noisy_sums(x, torch.tensor([0, 0]), 1, bound, sigma)
