"""`make test` shares the test files among two processes: each runs once, and no failure is lost."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.shards import SECONDS, deal, files_of, shard_of

ROOT = Path(__file__).parents[1]
FILES = files_of(ROOT / 'tests')


@pytest.mark.parametrize('number', [1, 2, 3])
def test_every_test_file_is_in_one_shard(number):
    shards = [shard_of(f'{i}/{number}', FILES) for i in range(1, number + 1)]
    assert sorted(file for shard in shards for file in shard) == FILES
    assert 'test_shards.py' in FILES and 'pipeline/test_neighbours.py' in FILES


def test_the_slow_files_exist_and_are_shared_equally():
    assert set(SECONDS) <= set(FILES)
    first, second = (sum(SECONDS.get(file, 1) for file in shard) for shard in deal(FILES, 2))
    assert abs(first - second) < 0.1 * (first + second)


def test_slow_files_are_dealt_first():
    seconds = {'e': 5, 'd': 4, 'c': 3}
    assert deal('abcde', 2, seconds) == [['e', 'a', 'b'], ['d', 'c']]
    assert deal('edcba', 2, seconds) == [['e', 'a', 'b'], ['d', 'c']]


@pytest.mark.parametrize('text', ['', '1', '0/2', '3/2', '1/0', '-1/2', '1/2/3', 'a/b'])
def test_other_spellings_are_refused(text):
    with pytest.raises(pytest.UsageError, match=rf"1 <= i <= n \(got '{re.escape(text)}'\)"):
        shard_of(text, FILES)


def run_pytest(folder, *arguments):
    return subprocess.run(
        [sys.executable, '-m', 'pytest', '-p', 'tests.helpers.shards', '-v', *arguments],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1'},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_shards_run_every_test_once(tmp_path):
    (tmp_path / 'pytest.ini').write_text('[pytest]\ntestpaths = tests\n')
    names = ['test_a', 'test_b', 'one/test_c', 'one/test_d', 'two/test_e']
    for name in names:
        path = tmp_path / 'tests' / f'{name}.py'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'def test_it():\n    assert {name!r} != "test_b"\n')
    whole, *shards = (run_pytest(tmp_path, *x) for x in ([], ['--shard=1/2'], ['--shard=2/2']))
    found = [re.findall(r'tests/(\S+)\.py::test_it (?:PASSED|FAILED)', p.stdout) for p in shards]
    assert sorted(found[0] + found[1]) == sorted(names) and all(found)
    codes = [int('test_b' in names) for names in found]
    assert whole.returncode == 1 and [p.returncode for p in shards] == codes
    assert '1 failed, 4 passed' in whole.stdout
    assert run_pytest(tmp_path, '--shard', '3/2').returncode == pytest.ExitCode.USAGE_ERROR


PROGRAM = """#!/bin/sh
case "$*" in *"--shard $FAILS"*) code=1 ;; *"--shard"*) code=0 ;; *) exit 0 ;; esac
echo "begin $*"; sleep 0.2; echo "end $*"
exit $code
"""


@pytest.mark.skipif(shutil.which('make') is None, reason='there is no make')
@pytest.mark.parametrize('fails', ['1/2', '2/2', 'none'])
def test_make_runs_both_shards_and_fails_if_one_fails(fails, tmp_path):
    (tmp_path / 'bin').mkdir()
    for name in ('python', 'ruff', 'mypy', 'lint-imports'):
        (tmp_path / 'bin' / name).write_text(PROGRAM)
        (tmp_path / 'bin' / name).chmod(0o755)
    (tmp_path / '.installed').touch()
    out = subprocess.run(
        ['make', 'test', f'VENV={tmp_path}'],
        cwd=ROOT,
        env={**os.environ, 'FAILS': fails, 'MAKEFLAGS': ''},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (out.returncode == 0) == (fails == 'none')
    lines = [line for line in out.stdout.splitlines() if '--shard' in line]
    words = [(line.split()[0], re.search(r'--shard (\S+)', line)[1]) for line in lines]
    assert sorted(words) == [(w, s) for w in ('begin', 'end') for s in ('1/2', '2/2')]
    assert words[0][1] == words[1][1]  # the output of one process, then that of the other
    assert all('not slow and not native' in line for line in lines)
