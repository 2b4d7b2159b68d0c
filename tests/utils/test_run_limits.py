"""Limits of time and memory raise errors of their own."""

import time

import pytest
import torch

from torch_geometric_cgt.errors import OutOfMemory, OutOfTime
from torch_geometric_cgt.utils.run_limits import Limits, is_out_of_memory


def test_no_limits_never_raise():
    Limits().check()
    Limits(seconds=100, bytes=1 << 50).check()
    assert Limits(seconds=5) == Limits(seconds=5)  # the start is not compared


def test_time_is_counted_from_the_start():
    limits = Limits(seconds=0.02)
    limits.check()
    time.sleep(0.03)
    with pytest.raises(OutOfTime, match=r'0\.02 seconds'):
        limits.check()


def test_memory_is_that_of_the_process():
    with pytest.raises(OutOfMemory, match=r'limit of 0\.00 GiB'):
        Limits(bytes=1).check()


@pytest.mark.parametrize('name', ['seconds', 'bytes'])
def test_limits_are_positive(name):
    with pytest.raises(ValueError, match=f"'{name}' must be positive"):
        Limits(**{name: 0})


def test_errors_of_allocation_are_out_of_memory():
    with pytest.raises(RuntimeError) as found:
        torch.empty(1 << 60)
    assert is_out_of_memory(found.value) and is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError('other'))
    assert not is_out_of_memory(ValueError('out of memory'))
