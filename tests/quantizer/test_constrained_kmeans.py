import numpy as np
import pytest

from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.quantizer import ConstrainedKMeans


@pytest.mark.parametrize('scale', [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(
    'n, m, k', [(60, 6, 10), (65, 6, 10), (65, 3, 10), (30, 1, 30), (59, 1, 30), (20, 20, 1)]
)
def test_guarantee_at_any_scale(n, m, k, scale):
    x = scale * np.random.default_rng(n + m).normal(size=(n, 3))
    model = ConstrainedKMeans(m, k).fit(x)
    assert model.sizes_.min() >= k and len(model.sizes_) == m
    means = np.stack([x[model.labels_ == c].mean(axis=0) for c in range(m)])
    np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-12 * scale)
    assert model.inertia_ == pytest.approx(((x - means[model.labels_]) ** 2).sum())
    assert model.inertia_path_ == [model.inertia_]
    assert np.array_equal(ConstrainedKMeans(m, k).fit_predict(x), model.labels_)


def test_scale_does_not_change_the_answer():
    x = np.random.default_rng(0).normal(size=(80, 3))
    one, other = (ConstrainedKMeans(8, 10).fit(s * x) for s in (1.0, 2.0**20))
    assert np.array_equal(one.labels_, other.labels_)


@pytest.mark.parametrize('x', [np.zeros((40, 2)), np.ones((40, 2)), np.eye(2)[[0, 1] * 20]])
def test_equal_rows(x):
    model = ConstrainedKMeans(4, 10).fit(x)
    assert model.sizes_.tolist() == [10] * 4


def test_refuses_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr('torch_geometric_cgt.utils.memory.available_memory', lambda _: 10**4)
    with pytest.raises(NotEnoughMemoryError, match="use 'FlowKMeans'"):
        ConstrainedKMeans(10, 5).fit(np.ones((100, 4)))
