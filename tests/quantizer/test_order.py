import pytest
import torch

from torch_geometric_cgt.quantizer.order import nearby_order


@pytest.mark.parametrize('num_points', [0, 1, 7, 9, 1000])
def test_every_point_once(num_points):
    points = torch.randn(num_points, 3, generator=torch.Generator().manual_seed(0))
    assert sorted(nearby_order(points).tolist()) == list(range(num_points))


def test_consecutive_points_are_near():
    points = torch.randn(1024, 2, generator=torch.Generator().manual_seed(0))
    cells = points[nearby_order(points)].view(32, 32, 2)
    within = float(cells.var(dim=1).sum(dim=1).mean())
    assert within < 0.15 * float(points.var(dim=0).sum())


def test_equal_points_do_not_matter():
    assert sorted(nearby_order(torch.ones(100, 2)).tolist()) == list(range(100))
