import numpy as np
import pytest

from torch_geometric_cgt.utils.checks import check_integer, check_positive


@pytest.mark.parametrize('value', [1, 7, np.int64(3)])
def test_positive_integers(value):
    assert check_positive('k', value) is None  # and nothing is raised


@pytest.mark.parametrize('value', [0, -1, 2.5, 2.0, True, None, '3', np.int64(0)])
def test_everything_else(value):
    with pytest.raises(ValueError, match=r"'k' must be a positive integer \(got "):
        check_positive('k', value)


@pytest.mark.parametrize('value', [-3, 0, np.int64(2)])
def test_integers_without_a_smallest_value(value):
    check_integer('seed', value, least=None)  # and nothing is raised
    with pytest.raises(ValueError, match="'seed' must be at least 3"):
        check_integer('seed', value, least=3)
