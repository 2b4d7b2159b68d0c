import pytest

from torch_geometric_cgt.privacy.intervals import difference, proportion


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
