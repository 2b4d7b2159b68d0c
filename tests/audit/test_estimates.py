import pytest
import torch

from torch_geometric_cgt.audit.estimates import (
    area,
    curve,
    difference,
    proportion,
    threshold_of,
    true_positives,
)


def test_exact_interval_of_a_share():
    # 95 % interval of none of 10: 1 - 0.025 ** (1 / 10)
    assert proportion(0, 10).high == pytest.approx(1 - 0.025 ** (1 / 10))
    assert proportion(0, 10).low == 0.0 and proportion(10, 10).high == 1.0
    with pytest.raises(ValueError, match='3 of 2'):
        proportion(3, 2)


def test_the_difference_of_shares():
    """Newcombe (1998), example of 56 of 70 against 48 of 80."""
    found = difference((56, 70), (48, 80))
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(0.0524, abs=1e-4)
    assert found.high == pytest.approx(0.3339, abs=1e-4)


def test_area_by_hand():
    found = area(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0, 2.0]))
    # 1: above one of three and level with one; 3: above all
    assert found.value == pytest.approx((1.5 + 3) / 6)
    assert area(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.5])).value == 1.0


def test_area_holds_its_interval():
    rng, inside = torch.Generator().manual_seed(0), 0
    for _ in range(300):
        member, other = torch.randn(60, generator=rng) + 1, torch.randn(80, generator=rng)
        found = area(member, other)
        inside += found.low <= 0.7602 <= found.high  # Phi(1 / sqrt(2))
    assert inside / 300 > 0.92


def test_true_positives_by_hand():
    other = torch.arange(100.0)
    member = torch.tensor([98.0, 98.5, 99.0, 99.5])
    assert threshold_of(other, 0.01) == 98.0  # which one other is above
    found = true_positives(member, other, 98.0)
    assert found.share == proportion(3, 4) and found.others == proportion(1, 100)
    assert threshold_of(other, 0.001) is None and threshold_of(torch.arange(1000.0), 0.001) == 998


def test_others_that_are_all_level_are_not_above():
    threshold = threshold_of(torch.zeros(200), 0.01)
    found = true_positives(torch.zeros(50), torch.zeros(200), threshold)
    assert found.share.value == found.others.value == 0.0


def test_curve_goes_from_corner_to_corner():
    points = curve(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0, 2.0]))
    assert points[0] == (0.0, 0.5) and points[-1] == (1.0, 1.0)
    assert (pytest.approx(1 / 3), 0.5) in points
    assert points == sorted(points)
