import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.privacy import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.noise import noise_from_dict, round_sigma


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
