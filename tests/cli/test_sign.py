"""``cgt sign`` and ``cgt verify``, from a new key to a verified release."""

import json
import shutil
from pathlib import Path

import pytest

from torch_geometric_cgt.cli import main

RECORDED = Path(__file__).parents[1] / 'recorded' / 'format_1' / 'histograms'


def test_sign_and_verify(tmp_path, capsys):
    folder, key = shutil.copytree(RECORDED, tmp_path / 'release'), tmp_path / 'key'
    assert main(['verify', str(folder)]) == 0
    assert 'signature: not checked' in capsys.readouterr().out
    assert main(['verify', str(folder), '--public-key', f'{key}.pub']) == 2
    assert main(['sign', '--new-key', str(key)]) == 0
    shown = capsys.readouterr().out
    assert f'Wrote {key}.pub' in shown
    public = shown.split()[-1]
    assert main(['verify', str(folder), '--public-key', public]) == 2
    assert 'card.json.minisig' in capsys.readouterr().err
    assert main(['sign', str(folder), '--key', str(key)]) == 0
    assert f'--public-key {public}' in capsys.readouterr().out
    assert main(['verify', str(folder), '--public-key', public]) == 0
    assert 'signature: valid, by key' in capsys.readouterr().out
    assert main(['verify', str(folder), '--public-key', f'{key}.pub', '--json']) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts['mechanism'] == 'differential privacy' and len(facts['signed_by']) == 16
    (folder / 'README.md').write_text('trust me')
    assert main(['verify', str(folder), '--public-key', public]) == 2
    assert 'README.md' in capsys.readouterr().err


@pytest.mark.parametrize(
    'arguments',
    [
        [],
        ['release'],
        ['--key', 'k'],
        ['release', '--new-key', 'k'],
        ['--new-key', 'k', '--key', 'k'],
    ],
)
def test_arguments_of_sign_that_do_not_go_together(arguments, capsys):
    assert main(['sign', *arguments]) == 2
    assert 'Give a release and' in capsys.readouterr().err


def test_a_smaller_limit(capsys):
    assert main(['verify', str(RECORDED), '--max-bytes', '100']) == 2
    assert 'at most 100 are allowed' in capsys.readouterr().err
