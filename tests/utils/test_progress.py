"""Progress on a terminal and in a log file."""

import io
import os
import re
import sys

import pytest

from tests.helpers.graphs import random_graph
from tests.helpers.terminals import terminal
from torch_geometric_cgt import KAnonymity, SyntheticCGTDataset
from torch_geometric_cgt.utils import progress
from torch_geometric_cgt.utils.progress import Progress, progress_bar

STAGES = ['quantize', 'scenes', 'encode', 'fit', 'sample']


class Clock:
    """A clock that moves only if it is told to."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, 'monotonic', lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def arguments(quick) -> dict:
    """A build without scenes, which has no views to match."""
    generator = {**quick['generator'], 'num_scenes': 0}
    privacy = KAnonymity(10, task_weight=0.8)
    return {**quick, 'k': None, 'privacy': privacy, 'log': True, 'generator': generator}


def test_a_build_on_a_terminal_shows_bars_and_the_time_left_of_all_stages(arguments):
    with terminal() as drawn:
        SyntheticCGTDataset(random_graph(), **arguments)
        shown = drawn()
    for i, name in enumerate(STAGES):
        assert re.search(rf'{name} \({i + 1}/5\): 100%\|', shown), name
    assert 'left in total' in shown and 'nll=' in shown
    assert re.search(r'sample \(5/5\): 100%.* about 00:00 left in total', shown)


def test_a_build_in_a_pipe_writes_one_line_per_stage(arguments):
    reader, writer = os.pipe()
    with open(writer, 'w') as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'stderr', stream)
        SyntheticCGTDataset(random_graph(), **arguments)
    with open(reader) as stream:
        lines = stream.read().splitlines()
    assert len(lines) == 5 and not any('\r' in line or '|' in line for line in lines)
    for i, (name, line) in enumerate(zip(STAGES, lines, strict=True)):
        assert re.fullmatch(rf'{name} \({i + 1}/5\): \d\d:\d\d, about \d\d:\d\d left', line)


def test_the_time_left_follows_from_the_shares_of_all_stages(clock):
    stages = Progress({'a': 1.0, 'b': 3.0}, io.StringIO())
    with stages.stage('a'):
        assert stages.left() is None
        bar = stages.bar(4, 'steps')
        clock.now += 2.0
        bar.update(2)  # half of a quarter in two seconds
        assert stages.left() == pytest.approx(14.0)
    with stages.stage('b'):
        assert stages.left() == pytest.approx(6.0)  # a quarter in two seconds
    assert stages.left() == 0.0


def test_a_stage_that_was_finished_or_begun_before_counts_for_its_rest_only(clock):
    stages = Progress({'a': 8.0, 'b': 2.0, 'c': 1.0}, io.StringIO())
    with stages.stage('a'):
        stages.skip()
    assert stages.left() is None
    with stages.stage('b'):
        bar = stages.bar(10, 'steps', 5)  # the half of it is left: a share of one
        clock.now += 3.0
        bar.update(5)
        assert stages.left() == pytest.approx(3.0)


def test_clusterings_that_converge_early_never_move_the_estimate_back(clock):
    stages = Progress({'a': 1.0}, io.StringIO())
    with stages.stage('a'):
        bar = stages.bar(2, 'steps')
        clock.now += 1.0
        bar.move(10, 20)
        assert stages.left() == pytest.approx(1.0)
        bar.move(5, 20)
        assert stages.left() == pytest.approx(1.0)


def test_an_error_ends_the_bar_and_is_not_hidden():
    with terminal() as drawn:
        stages = Progress({'a': 1.0})
        with pytest.raises(ValueError, match='broken'), stages.stage('a'):
            raise ValueError('broken')
        shown = drawn()
    assert 'a (1/1):   0%' in shown and '100%' not in shown


@pytest.mark.parametrize('log', [True, False])
def test_work_outside_of_a_build_draws_nothing_into_a_file(log, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, 'stderr', stream)
    with progress_bar(log, 3, 'fit', 'steps') as bar:
        bar.update(3)
        bar.note('nll=1')
    assert stream.getvalue() == '' and bar.n == 3


def test_work_outside_of_a_build_has_a_bar_on_a_terminal():
    with terminal() as drawn:
        with progress_bar(True, 3, 'fit', 'steps') as bar:
            bar.update(3)
        assert 'fit: 100%' in drawn()


def test_runs_of_one_computation_share_a_bar_and_may_end_early():
    bar, seen = progress.Bar(), []
    advance = progress.count_repetitions(bar, 3)
    for step in (1, 2, 1, 2, 3, 4, 1):  # the first run of four steps ends after two
        advance(step, 4)
        seen.append(bar.n)
    assert seen == [1, 2, 5, 6, 7, 8, 9] and bar.total == 12
