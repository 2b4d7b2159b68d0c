"""A build with seed 0 gives the bytes that were recorded."""

import json

import pytest

from tests.helpers.recorded import BUILDS, FILE, digests, environment

QUICK = [name for name in BUILDS if any(w in name for w in ('epoch', 'histograms', 'mixing'))]


def check(name, root):
    recorded = json.loads(FILE.read_text())
    here = environment()
    if recorded['environment'] != here:
        other = {k: v for k, v in recorded['environment'].items() if here[k] != v}
        pytest.skip(f'the last digits of floats were recorded with {other}')
    assert digests(name, root) == recorded['builds'][name]


@pytest.mark.parametrize('name', QUICK)
def test_quick_builds_give_the_recorded_bytes(name, tmp_path, monkeypatch, request):
    if 'cora' in name:
        monkeypatch.setenv('CGT_DATA_ROOT', request.getfixturevalue('data_root'))
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize('name', [name for name in BUILDS if name not in QUICK])
def test_default_builds_give_the_recorded_bytes(name, tmp_path, monkeypatch, request):
    if 'cora' in name:
        monkeypatch.setenv('CGT_DATA_ROOT', request.getfixturevalue('data_root'))
    check(name, tmp_path)
