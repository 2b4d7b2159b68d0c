"""A process with limits: whatever happens in it is an outcome, and never an error."""

import time

import psutil
import pytest

from tests.helpers import limited
from torch_geometric_cgt.utils.limited_process import GRACE, run_limited

GIB = 1 << 30


def test_a_result_comes_back_with_time_and_memory():
    run = run_limited(limited.add, 2, 3, seconds=60, max_bytes=4 * GIB)
    assert (run.status, run.value, run.text) == ('finished', 5, 'finished')
    assert 0 <= run.seconds < 60 and run.peak_bytes > 1 << 24


def test_a_function_that_hangs_is_out_of_time():
    assert run_limited(limited.add, 2, 3).value == 5  # starts the server of processes
    before, started = psutil.Process().children(recursive=True), time.monotonic()
    run = run_limited(limited.sleep, 600, seconds=0.2)
    assert run.status == 'out of time' and run.seconds > 0.2
    assert time.monotonic() - started < 60
    assert set(psutil.Process().children(recursive=True)) <= set(before)


def test_processor_time_does_not_pass_while_a_process_sleeps():
    limits = {'seconds': 0.6, 'clock': 'processor'}
    assert run_limited(limited.sleep, 0.6 + GRACE + 0.5, **limits).status == 'finished'
    run = run_limited(limited.compute, **limits)
    assert run.status == 'out of time' and 0.6 < run.processor_seconds < 5


def test_processor_time_is_measured():
    sleeping, busy = run_limited(limited.sleep, 0.5), run_limited(limited.compute, 0.5)
    assert sleeping.processor_seconds < 0.4 < busy.processor_seconds
    with pytest.raises(ValueError, match="'clock' must be 'wall' or 'processor'"):
        run_limited(limited.add, 1, 2, clock='sun')


def test_a_function_that_checks_stops_by_itself():
    run = run_limited(limited.obey, seconds=0.2)
    assert run.status == 'out of time' and 0.2 < run.seconds < 1.5


@pytest.mark.parametrize('function', [limited.allocate, limited.allocate_too_much])
def test_a_function_that_allocates_is_out_of_memory(function):
    run = run_limited(function, seconds=120, max_bytes=GIB)
    assert run.status == 'out of memory' and run.text == 'out of memory'


def test_a_process_that_is_killed_is_out_of_memory():
    assert run_limited(limited.die, 'SIGKILL').status == 'out of memory'


def test_errors_are_failures():
    run = run_limited(limited.fail)
    assert run.text == 'failed: ValueError: a wrong value'
    assert run_limited(limited.leave).text == 'failed: the process ended with exit code 3'


def test_limits_are_checked_before():
    with pytest.raises(ValueError, match="'seconds' must be positive"):
        run_limited(limited.add, 1, 2, seconds=-1)
