import os

import numpy as np
from scipy.stats import kstest

from torch_geometric_cgt.privacy.noise_sampling import SystemRandom


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
