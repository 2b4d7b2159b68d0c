"""A build with seed 0 gives the bytes that were recorded."""

import pytest

from tests.helpers.recorded import BUILDS, digests, recorded_builds

QUICK = [name for name in BUILDS if any(w in name for w in ('epoch', 'histograms', 'mixing'))]


def check(name, root):
    builds = recorded_builds()
    if name not in builds:
        pytest.skip('the last digits of floats depend on the processor: not recorded on this one')
    assert digests(name, root) == builds[name]


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
