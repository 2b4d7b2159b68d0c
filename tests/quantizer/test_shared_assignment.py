import pytest
import torch

from torch_geometric_cgt.quantizer.kmeans_steps import assign_greedily, standardize
from torch_geometric_cgt.quantizer.shared_assignment import ScaledShare, assign_share
from torch_geometric_cgt.training import World


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
