"""Builds that were interrupted, and builds that meet."""

import importlib

import pytest

from tests.helpers.builds import builds, plain
from tests.helpers.processes import in_a_process
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.datasets import synthetic
from torch_geometric_cgt.pipeline import KAnonymousPipeline
from torch_geometric_cgt.release import cache
from torch_geometric_cgt.utils.files import write_sealed_json

fit_module = importlib.import_module('torch_geometric_cgt.training.fit')


def interrupted(*_, **__):
    raise KeyboardInterrupt


def interrupted_write(path, *rest):
    """Writes the release, and is interrupted at the last file beside it."""
    if path.name == cache.PRIVATE_CARD:
        raise KeyboardInterrupt
    write_sealed_json(path, *rest)


def content(folder) -> dict:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_build_goes_on_where_it_stopped(graph, quick, finished_build, monkeypatch):
    """One build is interrupted in one phase after the other."""
    (whole,) = builds(finished_build)
    phases = {
        'fit': (KAnonymousPipeline, 'quantize'),
        'match_views': (fit_module, 'train_step'),
        'write_trees': (KAnonymousPipeline, 'match_views'),
        'write': None,
    }
    with monkeypatch.context() as finished:
        for phase, done in phases.items():
            with monkeypatch.context() as patch:
                if phase == 'write':
                    patch.setattr(cache, 'write_sealed_json', interrupted_write)
                else:
                    patch.setattr(KAnonymousPipeline, phase, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    SyntheticCGTDataset(graph, **quick)
            (work,) = builds(quick['root'])  # nothing half-written
            assert work.name == f'{whole.name}.fit'
            if done is not None:
                finished.setattr(*done, lambda *_, phase=phase: pytest.fail(f'before {phase}'))
        SyntheticCGTDataset(graph, **quick)
    (folder,) = builds(quick['root'])
    assert folder.name == whole.name and content(folder) == content(whole)


FRESH = FitConfig(epochs=2, batch_size=32, resume=False)


@pytest.mark.parametrize('change', [{'fit': FRESH}, {'force_reload': True}])
def test_an_interrupted_build_can_be_thrown_away(graph, quick, monkeypatch, change):
    arguments = plain(quick)
    with monkeypatch.context() as patch:
        patch.setattr(KAnonymousPipeline, 'write_trees', interrupted)
        with pytest.raises(KeyboardInterrupt):
            SyntheticCGTDataset(graph, **arguments)
    calls, quantize = [], KAnonymousPipeline.quantize
    monkeypatch.setattr(KAnonymousPipeline, 'quantize', lambda *a: calls.append(1) or quantize(*a))
    SyntheticCGTDataset(graph, **{**arguments, **change})
    assert calls == [1] and len(builds(quick['root'])) == 1


def test_how_a_build_is_run_does_not_name_its_cache(graph, cached, monkeypatch):
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained again'))
    config = FitConfig(epochs=2, batch_size=32, compile=True, checkpoint_minutes=1.0)
    dataset = SyntheticCGTDataset(graph, **{**cached, 'fit': config})
    assert len(dataset.trees) == 120 and len(builds(cached['root'])) == 1


@pytest.mark.parametrize('kills', [4, pytest.param(30, marks=pytest.mark.slow)])
def test_a_killed_build_ends_with_the_bytes_of_an_undisturbed_one(tmp_path, kills):
    out = in_a_process('tests.helpers.killed', tmp_path, kills, kills, timeout=900)
    assert out.returncode == 0, out.stderr[-2000:]
    cut = int(out.stdout.split()[0])
    assert cut >= kills // 2  # the others were done before


def test_a_full_disk_is_reported_with_what_was_kept(tmp_path):
    out = in_a_process('tests.helpers.full_disk', tmp_path, timeout=120)
    assert out.returncode == 0, out.stderr[-2000:]
    first, second = out.stdout.splitlines()
    assert first.startswith('NotWritableError: Cannot write to') and 'File too large' in first
    assert "quantize, scenes are kept in '" in first
    assert second == 'built'  # with room, it went on
