"""``cgt cache``: what is kept, what is secret, and what stays."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from torch_geometric_cgt.cli import main


@pytest.fixture
def root(finished_build, tmp_path) -> Path:
    """A folder with a finished build, an interrupted one, and the odometer."""
    root = tmp_path / 'builds'
    shutil.copytree(finished_build, root)
    (root / 'Data-e4-node-s5x5-0.fit' / 'ledger').mkdir(parents=True)
    (root / 'Data-e4-node-s5x5-0.fit' / 'ledger' / 'facts.json').write_text('{}')
    return root


def cache(root, *arguments) -> int:
    return main(['cache', *arguments, '--root', str(root)])


def test_list_shows_what_a_build_is_and_that_it_holds_secrets(root, capsys):
    assert cache(root, 'list') == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert 'interrupted' in lines[1] and 'e4' in lines[1]
    assert [word in lines[2] for word in ('k10', 'k=10', 'finished', 'yes')] == [True] * 4
    assert '2 builds' in lines[3] and 'must not be published' in shown and 'odometer' not in shown

    assert cache(root, 'list', '--json') == 0
    content = json.loads(capsys.readouterr().out)
    second, first = content['builds']
    assert first['source'] == 'Data' and first['num_bytes'] > 1000 and len(first['date']) == 10
    assert second['state'] == 'interrupted' and second['has_secrets']


def test_remove_one_and_all_but_never_the_odometer(root, capsys):
    assert cache(root, 'remove', 'Data-e4-node-s5x5-0.fit', '--yes') == 0
    assert 'its cost still counts' in capsys.readouterr().out
    assert sum(path.name.startswith('Data') for path in root.iterdir()) == 1
    assert cache(root, 'remove', '--all', '--yes') == 0
    assert not any(path.name.startswith('Data') for path in root.iterdir())
    assert list((root / 'odometer').glob('*.json'))
    assert cache(root, 'remove', '--all', '--yes') == 0
    capsys.readouterr()
    assert cache(root, 'list') == 0
    assert 'No builds' in capsys.readouterr().out


def test_without_a_terminal_removing_needs_yes(root, capsys, monkeypatch):
    monkeypatch.setattr(sys, 'stdin', open('/dev/null'))
    assert cache(root, 'remove', '--all') == 2
    assert "'--yes'" in capsys.readouterr().err
    assert len(json.loads(_listed(root, capsys))['builds']) == 2


@pytest.mark.parametrize('answer, left', [('y', 0), ('', 2), ('n', 2)])
def test_on_a_terminal_the_owner_is_asked(root, capsys, monkeypatch, answer, left):
    monkeypatch.setattr(sys.stdin, 'isatty', lambda: True, raising=False)
    monkeypatch.setattr('builtins.input', lambda _: answer)
    assert cache(root, 'remove', '--all') == (1 if left else 0)
    capsys.readouterr()
    assert len(json.loads(_listed(root, capsys))['builds']) == left


def test_a_build_that_is_running_is_not_removed(root, capsys):
    with FileLock(root / '.locks' / 'Data-e4-node-s5x5-0.fit.lock'):
        assert cache(root, 'remove', 'Data-e4-node-s5x5-0.fit', '--yes') == 2
    assert 'another process' in capsys.readouterr().err
    assert (root / 'Data-e4-node-s5x5-0.fit').exists()


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['remove'], "'--all'"),
        (['remove', 'odometer', '--yes'], "no build ['odometer']"),
        (['remove', '../builds', '--yes'], 'no build'),
    ],
)
def test_wrong_arguments_end_with_a_sentence(root, capsys, arguments, message):
    assert cache(root, *arguments) == 2
    assert message in capsys.readouterr().err and (root / 'odometer').is_dir()


@pytest.mark.parametrize('arguments', [['list', '--all'], ['list', 'odometer'], ['drop'], []])
def test_unknown_actions_and_arguments_end_with_a_line(root, capsys, arguments):
    with pytest.raises(SystemExit):
        main(['cache', *arguments])
    assert len(capsys.readouterr().err.splitlines()) == 1 and (root / 'odometer').is_dir()


@pytest.mark.parametrize('place', range(4))
def test_the_folder_may_be_named_in_any_place(root, place):
    arguments = ['remove', 'Data-e4-node-s5x5-0.fit', '--yes']
    arguments[place:place] = ['--root', str(root)]
    assert main(['cache', *arguments]) == 0
    assert not (root / 'Data-e4-node-s5x5-0.fit').exists()


def _listed(root, capsys) -> str:
    assert cache(root, 'list', '--json') == 0
    return capsys.readouterr().out
