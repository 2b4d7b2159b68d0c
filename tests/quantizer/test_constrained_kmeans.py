from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.quantizer import ConstrainedKMeans, FlowKMeans

KINDS = ['normal', 'duplicates', 'constant columns', 'zeros', 'clumps', 'offset', 'tiny', 'huge']


def make_rows(kind, n, num_features, seed):
    x = np.random.default_rng(seed).normal(size=(n, num_features))
    if kind == 'duplicates':
        x = x[np.random.default_rng(seed + 1).integers(0, max(1, n // 7), n)]
    elif kind == 'constant columns':
        x[:, ::2] = 3.5
    elif kind == 'zeros':
        x[:] = 0.0
    elif kind == 'clumps':
        x = np.round(x) * 100 + 0.01 * x
    elif kind == 'offset':
        x += 1e4
    elif kind == 'tiny':
        x *= 1e-12
    elif kind == 'huge':
        x *= 1e12
    return x


def check(model, x, size_min):
    r"""The guarantees, computed from the released labels alone."""
    x = np.asarray(x, dtype=np.float64)
    labels = model.labels_
    assert labels.dtype == np.int64 and labels.shape == (len(x),)
    sizes = np.bincount(labels, minlength=len(model.cluster_centers_))
    assert sizes.tolist() == model.sizes_.tolist()
    assert sizes.min() >= size_min
    means = np.stack([x[labels == c].mean(axis=0) for c in range(len(sizes))])
    scale = np.abs(x).max() + 1e-300
    np.testing.assert_allclose(model.cluster_centers_ / scale, means / scale, atol=1e-6)
    inertia = ((x - means[labels]) ** 2).sum()
    spread = ((x - x.mean(axis=0)) ** 2).sum()
    assert abs(model.inertia_ - inertia) <= 1e-6 * inertia + 1e-9 * spread
    assert all(after <= before for before, after in pairwise(model.inertia_path_))
    assert abs(model.inertia_path_[-1] - model.inertia_) <= 1e-6 * inertia + 1e-9 * spread
    assert model.n_iter_ == len(model.inertia_path_) - 1


def check_rows(kind, n, size_min, num_clusters, num_features, cell_size, dtype, seed):
    x = make_rows(kind, n, num_features, seed).astype(dtype)
    args = dict(cell_size=cell_size, max_iter=6, random_state=seed)
    model = FlowKMeans(num_clusters, size_min, **args).fit(x)
    assert len(model.sizes_) == num_clusters
    check(model, x, size_min)
    again = FlowKMeans(num_clusters, size_min, **args).fit(torch.from_numpy(x))
    assert np.array_equal(model.labels_, again.labels_)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('size_min', [1, 2, 5, 9])
def test_edges_of_the_guarantee(kind, size_min):
    # 8 x 4 x 10 cases: n = k, n just below 2k, one cluster, m = n // k with and without a rest.
    cases = [
        (size_min, 1),
        (2 * size_min - 1, 1),
        (2 * size_min, 2),
        (7 * size_min, 1),
        (7 * size_min, 7),
        (8 * size_min - 1, 7),
        (8 * size_min - 1, 3),
        (50, 50 // size_min),
        (97, 97 // size_min),
        (97, 97 // (2 * size_min)),
    ]
    for seed, (n, m) in enumerate(cases):
        check_rows(kind, n, size_min, max(m, 1), 3, 10_000, np.float32, seed)


@pytest.mark.parametrize('kind', KINDS)
def test_many_cells(kind):
    # 8 x 6 cases in which rows are treated in cells, and cells are drawn anew in each step.
    for seed, (n, size_min) in enumerate(
        [(200, 3), (201, 4), (130, 1), (250, 7), (256, 8), (225, 5)]
    ):
        check_rows(kind, n, size_min, n // size_min, 4, 25, np.float64, seed)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_any_size(data):
    size_min = data.draw(st.integers(1, 12), 'size_min')
    n = data.draw(st.integers(size_min, 160), 'n')
    m = data.draw(st.integers(1, n // size_min), 'm')
    check_rows(
        data.draw(st.sampled_from(KINDS)),
        n,
        size_min,
        m,
        data.draw(st.integers(1, 5)),
        data.draw(st.sampled_from([12, 30, 10_000])),
        data.draw(st.sampled_from([np.float32, np.float64])),
        data.draw(st.integers(0, 99)),
    )


@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64, torch.int64])
def test_types(dtype):
    x = torch.from_numpy(make_rows('normal', 90, 4, 0) * 10).to(dtype)
    check(FlowKMeans(9, 10).fit(x), x.double(), 10)


def test_finds_what_is_plain_to_see():
    # Two heaps of 4 and 6 rows: the only good answer with at least 3 rows each.
    x = torch.tensor([0.0, 0.1, 0.2, 0.3, 9.0, 9.1, 9.2, 9.3, 9.4, 9.5]).view(-1, 1)
    model = FlowKMeans(2, 3).fit(x)
    assert len(set(model.labels_[:4])) == 1 and len(set(model.labels_[4:])) == 1
    assert sorted(model.sizes_.tolist()) == [4, 6]
    assert model.inertia_ == pytest.approx(0.05 + 0.175, abs=1e-5)


def test_minimum_binds():
    # A heap of 2 must take in the nearest row of the heap of 6.
    x = torch.tensor([0.0, 0.1, 4.0, 9.0, 9.1, 9.2, 9.3, 9.4]).view(-1, 1)
    model = FlowKMeans(2, 3).fit(x)
    assert model.labels_[:3].tolist() == [model.labels_[0]] * 3
    assert sorted(model.sizes_.tolist()) == [3, 5]


def test_close_to_exact():
    x = make_rows('normal', 600, 8, 0)
    exact = np.mean([ConstrainedKMeans(20, 30, random_state=s).fit(x).inertia_ for s in range(2)])
    ours = np.mean([FlowKMeans(20, 30, random_state=s).fit(x).inertia_ for s in range(2)])
    assert ours <= 1.01 * exact


def test_cells_lose_little():
    x = make_rows('normal', 3000, 4, 0)
    whole = FlowKMeans(300, 10).fit(x).inertia_
    cells = FlowKMeans(300, 10, cell_size=500).fit(x).inertia_
    assert cells <= 1.03 * whole


def test_large_clusters_are_assigned_greedily():
    x = make_rows('clumps', 3000, 2, 0)
    model = FlowKMeans(5, 500, cell_size=100).fit(x)  # 3,000 rows > 4 * cell_size
    check(model, x, 500)
    assert model.inertia_path_[-1] < model.inertia_path_[0]


def test_seed_matters_and_callback():
    x, steps = make_rows('normal', 300, 4, 0), []
    first = FlowKMeans(30, 10, callback=lambda *args: steps.append(args)).fit(x)
    other = FlowKMeans(30, 10, random_state=1).fit(x)
    assert not np.array_equal(first.labels_, other.labels_)
    assert steps == [(i + 1, 12) for i in range(first.n_iter_)] and steps


def test_arguments_are_stored_untouched():
    model = FlowKMeans(3, 4, cell_size=7)
    assert str(model) == (
        'FlowKMeans(n_clusters=3, size_min=4, max_iter=12, n_candidates=5, '
        "cell_size=7, tol=0.001, min_labels=None, random_state=0, device='cpu', "
        'callback=None, world=None)'
    )
    assert model.fit(np.ones((20, 2))) is model


def test_refuses_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr('torch_geometric_cgt.utils.checks.available_memory', lambda _: 10**6)
    with pytest.raises(NotEnoughMemoryError, match="'cell_size'"):
        FlowKMeans(10, 5).fit(make_rows('normal', 100, 4, 0))


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


def test_an_exact_flow_refuses_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr('torch_geometric_cgt.utils.checks.available_memory', lambda _: 10**4)
    with pytest.raises(NotEnoughMemoryError, match="use 'FlowKMeans'"):
        ConstrainedKMeans(10, 5).fit(np.ones((100, 4)))
