import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from torch_geometric_cgt.benchmark.process_pool import _portable, run_tasks
from torch_geometric_cgt.errors import DistributedError


class Unsendable(Exception):
    def __init__(self, text: str, more: str) -> None:
        super().__init__(text)


def count(what: str, folder: Path) -> Iterator[str]:
    (folder / what).touch()
    if what == 'fails':
        raise ValueError(f'{what} as it must')
    if what == 'dies':
        os._exit(7)
    yield f'{what} 1'
    if what == 'lasts':
        time.sleep(600)  # unless the process is ended
    yield f'{what} 2'


def test_items_come_one_by_one_until_an_error_ends_all_processes(tmp_path: Path) -> None:
    names = ['a', 'b', 'c', 'lasts', 'fails', 'never']
    steps = []
    with pytest.raises(ValueError, match='fails as it must'):
        for step in run_tasks(count, [(name, tmp_path) for name in names], jobs=2):
            steps.append(step)
    for task, name in enumerate('abc'):
        assert [item for i, item in steps if i == task] == [None, f'{name} 1', f'{name} 2']
    last = steps.index((2, None))  # begins when one of the others is done, and not before
    assert {(0, 'a 2'), (1, 'b 2')} & set(steps[:last])
    assert not (tmp_path / 'never').exists()


def test_a_process_that_dies_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(DistributedError, match='exit code 7'):
        list(run_tasks(count, [('dies', tmp_path)], jobs=2))


def value_of(name: str) -> Iterator[str]:
    yield os.environ[name]


def test_processes_have_the_environment_of_their_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ('first', 'second'):
        monkeypatch.setenv('CGT_TEST', value)
        found = list(run_tasks(value_of, [('CGT_TEST',)], jobs=2))
        assert found == [(0, None), (0, value)]


def test_errors_that_cannot_be_sent_are_told() -> None:
    assert str(_portable(Unsendable('lost', 'more'))) == 'Unsendable: lost'
    error = ValueError('fails')
    assert _portable(error) is error
