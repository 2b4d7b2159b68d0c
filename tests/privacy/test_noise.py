"""The kinds of noise, and the distribution of what is sampled."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from torch_geometric_cgt.privacy import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.noise import (
    SystemRandom,
    _uniform,
    discrete_gaussian,
    noise_from_dict,
    round_sigma,
)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(0.1, 10))
def test_noise_at_a_cost_has_that_cost(rho, sensitivity):
    for noise in (Gaussian(1.0), Laplace(1.0), SampledGaussian(1.0, 0.1, 50)):
        found = noise.at_cost(rho, sensitivity)
        assert found.concentrated(sensitivity) == pytest.approx(rho, rel=1e-6)
        assert noise_from_dict(found.to_dict()) == found
    discrete = DiscreteGaussian(1.0).at_cost(rho, sensitivity)
    assert discrete.concentrated(sensitivity) <= rho * (1 + 1e-9)  # its width is rounded up


@given(st.floats(1e-3, 1e6))
def test_rounded_widths(sigma):
    rounded = round_sigma(sigma)
    assert sigma <= rounded <= sigma + max(1 / 256, sigma / 200)
    assert (256 * rounded).is_integer()
    assert round_sigma(rounded) == rounded


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize('sigma', [0.25, 0.50390625, 1.0, 3.75, 15.99609375, 100.0625, 300.0])
def test_draws_have_the_probabilities_of_the_formula(sigma):
    draws = discrete_gaussian(40_000, sigma, rng()).numpy()
    far = int(8 * sigma) + 2
    z = np.arange(-far, far + 1)
    mass = np.exp(-(z**2) / (2 * sigma**2))
    mass /= mass.sum()
    # Bins of equal probability, as far as single integers allow.
    cell = np.minimum((mass.cumsum() * 24).astype(int), 23)
    cell = np.unique(cell, return_inverse=True)[1]
    expected = np.bincount(cell, weights=mass) * draws.size
    observed = np.bincount(cell[draws + far], minlength=expected.size)
    keep = expected > 5
    assert observed[~keep].sum() <= 30
    if keep.sum() > 1:
        scaled = expected[keep] * observed[keep].sum() / expected[keep].sum()
        assert chisquare(observed[keep], scaled).pvalue > 1e-3
    assert abs(draws.mean()) < 5 * sigma / 200


def test_a_wide_one_has_the_moments_of_a_gaussian():
    draws = discrete_gaussian(50_000, float(1 << 20), rng()).double() / (1 << 20)
    assert abs(float(draws.mean())) < 0.02 and abs(float(draws.std()) - 1) < 0.02
    assert abs(float((draws**4).mean()) - 3) < 0.2
    assert draws.unique().numel() > 45_000


def test_generator_or_the_operating_system():
    assert torch.equal(discrete_gaussian(100, 5.0, rng(1)), discrete_gaussian(100, 5.0, rng(1)))
    assert not torch.equal(discrete_gaussian(100, 5.0, rng(1)), discrete_gaussian(100, 5.0, rng(2)))
    fresh = [discrete_gaussian(100, 5.0) for _ in range(2)]
    assert not torch.equal(*fresh)
    assert 3 < float(discrete_gaussian(2000, 5.0).double().std()) < 7


def test_uniform_numbers_have_no_favourites():
    """The remainder of a power of two would favour the first third of these."""
    high = 3 << 60
    draws = _uniform(3000, high, rng())
    share = [float(((draws >= i << 60) & (draws < (i + 1) << 60)).float().mean()) for i in range(3)]
    assert max(share) - min(share) < 0.06
    assert torch.bincount(_uniform(7000, 7, rng()), minlength=7).min() > 850


@pytest.mark.parametrize('sigma', [0.0, -1.0, float('nan'), 0.3, 100.01, 1e9])
def test_a_width_that_cannot_be_drawn_exactly_is_refused(sigma):
    with pytest.raises(ValueError, match=r"'sigma'"):
        discrete_gaussian(1, sigma)


def test_numbers_are_uniform_and_normal():
    rng = SystemRandom()
    uniform = rng.random(20_000)
    assert 0 <= uniform.min() and uniform.max() < 1
    assert kstest(uniform, 'uniform').pvalue > 1e-6
    normal = rng.standard_normal((101, 199))
    assert normal.shape == (101, 199) and np.isfinite(normal).all()
    assert kstest(normal.ravel(), 'norm').pvalue > 1e-6
    assert abs(np.corrcoef(normal.ravel()[::2][:-1], normal.ravel()[1::2])[0, 1]) < 0.05
    assert rng.standard_normal((0,)).shape == (0,)


def test_all_of_them_come_from_the_operating_system(monkeypatch):
    asked = []

    def urandom(size):
        asked.append(size)
        return b'\xff' * size

    monkeypatch.setattr(os, 'urandom', urandom)
    largest = SystemRandom().random(3)
    assert (largest == 1 - 2.0**-53).all() and asked == [24]
    extreme = SystemRandom().standard_normal((2,))
    assert np.isfinite(extreme).all() and abs(extreme).max() > 8  # the far end of the tail
