"""What ``cgt`` answers without PyTorch and PyG, exit codes and warnings."""

import resource
import subprocess
import sys
import warnings

import pytest

from torch_geometric_cgt.cli import (
    COMMANDS,
    arguments,
    main,
    promise_arguments,
    source_arguments,
    synthesize,
)
from torch_geometric_cgt.errors import SourceError

# Runs `cgt`, and says which large packages that imported.
SCRIPT = """
import sys
from torch_geometric_cgt.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
large = {'torch', 'torch_geometric', 'numpy', 'scipy', 'sklearn', 'matplotlib', 'pandas'}
print('imported', sorted(large & set(sys.modules)), 'code', code)
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_python_dash_m():
    out = run('-m', 'torch_geometric_cgt', '--version')
    assert out.returncode == 0 and out.stdout.startswith('cgt ')


@pytest.mark.parametrize('arguments', [['--version'], ['--help'], ['evaluate', '--help']])
def test_an_answer_takes_less_than_half_a_second_of_processor_time(arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = run('-m', 'torch_geometric_cgt', *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert out.returncode == 0
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 0.5


@pytest.mark.parametrize(
    'arguments, code',
    [
        (['--version'], 0),
        (['--help'], 0),
        *[([name, '--help'], 0) for name in COMMANDS],
        ([], 2),
        (['nonsense'], 2),
        (['synthesize'], 2),  # without '--out'
        (['synthesize', '--out', 'new', '--k', 'many'], 2),
        (['price', '--unit', 'nation'], 2),
        (['price'], 2),
        (['budget', '--limit', '8'], 2),  # without '--source'
        (['budget', '--source', 'Cora', '--limit', '8', '--no-limit'], 2),
        (['budget', '--source', 'Cora', '--delta', '0.1'], 2),
        (['synthesize', '--out', '.'], 2),  # exists
        (['evaluate', '--out', 'new', '--seeds', '0'], 2),
        (['benchmark', '--scenario', '1', '--seeds', '0'], 2),
    ],
)
def test_help_and_wrong_arguments_import_no_large_package(arguments, code):
    out = run('-c', SCRIPT, *arguments)
    assert out.stdout.endswith(f'imported [] code {code}\n'), out.stdout + out.stderr


@pytest.mark.parametrize(
    'arguments, start',
    [
        (['synthesize', '--out', 'new', '--k', 'many'], 'cgt synthesize: error: argument --k: inv'),
        (['synthesize'], 'cgt synthesize: error: the following arguments are required: --out'),
        (['nonsense'], 'cgt: error: argument command: invalid choice'),
        ([], 'cgt: error: the following arguments are required: command'),
    ],
)
def test_wrong_arguments_end_with_one_line(arguments, start, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2 and line.startswith(start) and "--help' lists" in line


@pytest.mark.parametrize(
    'command, listed',
    [
        ('synthesize', ['SOURCES', 'UNITS', 'FORMS', 'PRECISIONS']),
        ('evaluate', ['SOURCES', 'MODELS', 'UNITS', 'FORMS', 'PRECISIONS']),
        ('benchmark', ['EXPERIMENTS']),
        ('price', ['SOURCES', 'UNITS', 'FORMS']),
        ('budget', ['SOURCES', 'UNITS']),
        ('audit', ['SOURCES', 'CHECKS', 'AUDIT_UNITS']),
    ],
)
def test_help_lists_the_choices(command, listed, capsys, monkeypatch):
    monkeypatch.setenv('COLUMNS', '1000')
    with pytest.raises(SystemExit):
        main([command, '--help'])
    shown = capsys.readouterr().out
    named = {**vars(source_arguments), **vars(promise_arguments), **vars(arguments)}
    for name in listed:
        assert not [choice for choice in named[name] if choice not in shown]


@pytest.mark.parametrize(
    'error, code, message',
    [
        (SourceError('no labels'), 2, 'cgt: error: no labels\n'),
        (ValueError('got 0'), 2, 'cgt: error: got 0\n'),
        (OSError('full'), 2, 'cgt: error: full\n'),
        (KeyboardInterrupt(), 130, 'cgt: interrupted; the same command resumes from'),
    ],
)
def test_exit_codes(error, code, message, capsys, monkeypatch):
    def fail(_):
        raise error

    monkeypatch.setattr(synthesize, 'run', fail)
    assert main(['synthesize', '--out', 'new']) == code
    assert capsys.readouterr().err.startswith(message)


def test_warnings_are_one_line(capsys, monkeypatch):
    monkeypatch.setattr(synthesize, 'run', lambda _: warnings.warn('small k', stacklevel=1))
    assert main(['synthesize', '--out', 'new']) == 0
    assert capsys.readouterr().err == 'cgt: warning: small k\n'
