"""Clusterings by several processes. Those checks see the labels of all rows and nothing else."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.helpers.processes import in_a_world
from tests.helpers.shared_rows import LARGE, SEEDS, blobs, cases, digits
from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.quantizer.kmeans_steps import assign_greedily, standardize
from torch_geometric_cgt.quantizer.shared_kmeans import ScaledShare, assign_share
from torch_geometric_cgt.training import World


@pytest.fixture(scope='module', params=[2, 3])
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp('shared')
    for out in in_a_world('tests.helpers.shared_rows', folder, processes=request.param):
        assert out.returncode == 0, out.stderr[-3000:]
    return torch.load(folder / f'{request.param}.pt', weights_only=False)


def check(model, x, size_min):
    x, labels = x.astype(np.float64), model.labels_
    assert labels.shape == (len(x),) and labels.min() >= 0  # every row once
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


def test_every_cluster_has_enough_rows_of_all_processes(found):
    for model, (x, size_min, arguments) in zip(found['models'], cases(), strict=True):
        assert len(model.sizes_) == arguments['n_clusters']
        check(model, x, size_min)


def test_the_same_seed_and_number_of_processes_give_the_same_labels(found):
    for model, again in zip(found['models'][1:6], found['again'], strict=True):
        assert np.array_equal(model.labels_, again.labels_)
        assert np.array_equal(model.cluster_centers_, again.cluster_centers_)


def test_the_inertia_is_that_of_one_process(found):
    for models, x in zip(found['large'], (blobs(), digits()), strict=True):
        for model in models:
            check(model, x, 25)
        one = [FlowKMeans(size_min=25, random_state=s, max_iter=6, **LARGE).fit(x) for s in SEEDS]
        inertia = sum(model.inertia_ for model in models)
        assert inertia <= 1.01 * sum(model.inertia_ for model in one)
    few = FlowKMeans(6, 25, max_iter=6, cell_size=50).fit(blobs())
    check(found['few'], blobs(), 25)
    assert found['few'].inertia_ <= 1.01 * few.inertia_


def test_distinct_labels_are_those_of_one_process(found):
    check(found['diverse'], blobs(), 25)
    one = FlowKMeans(60, 25, min_labels=2).fit(blobs(), np.arange(2_000) % 3)
    assert np.array_equal(one.labels_, found['diverse'].labels_)


@pytest.mark.parametrize('seed', range(5))
def test_one_process_assigns_as_without_processes(seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 3, generator=rng) * 5 + 100
    share = ScaledShare.of(x, 60, World())
    z, offset, scale = standardize(x)
    assert torch.allclose(share.scaled(x), z, atol=1e-5)
    assert torch.allclose(share.offset, offset) and share.scale == pytest.approx(scale, rel=1e-6)
    centers = z[:6].clone()
    centers[0] = 9.0  # far from all rows, so that its cluster must be filled
    minimum = torch.tensor([20, 1, 5, 10, 10, 10])
    expected = assign_greedily(share.scaled(x), centers, minimum)
    found = assign_share(share, centers, minimum, World())
    assert torch.equal(found, expected)
    assert (torch.bincount(found, minlength=6) >= minimum).all()


def test_sums_and_nearest_centres_of_scaled_rows():
    x = torch.tensor([[0.0], [1.0], [9.0], [10.0]])
    share = ScaledShare.of(x, 4, World())  # the offset is 5, and the scale one fifth
    label, dist = share.nearest(torch.tensor([[-1.0], [1.0]]))
    assert label.tolist() == [0, 0, 1, 1]
    assert torch.allclose(dist, torch.tensor([0.0, 0.04, 0.04, 0.0]), atol=1e-6)
    sums = share.sums(label, 2, World())
    assert torch.allclose(sums, torch.tensor([[-1.8], [1.8]], dtype=torch.double))
