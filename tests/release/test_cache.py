import shutil

import pytest

from torch_geometric_cgt.release.cache import kept_builds, remove_build


def test_a_folder_that_does_not_exist_holds_no_builds(tmp_path):
    assert kept_builds(tmp_path / 'nowhere') == []


def test_a_finished_a_damaged_and_a_left_over_build(finished_build, tmp_path):
    root = tmp_path / 'root'
    shutil.copytree(finished_build, root)
    (name,) = [path.name for path in root.iterdir() if path.name.startswith('Data')]
    shutil.copytree(root / name, root / f'.{name}-x7')
    shutil.copytree(root / name, root / 'Other-k10')
    (root / 'Other-k10' / 'card.json').write_text('{}')
    found = {build.folder: build for build in kept_builds(root)}
    assert {name: build.state for name, build in found.items()} == {
        name: 'finished',
        f'.{name}-x7': 'left over',
        'Other-k10': 'left over',
    }
    assert all(build.has_secrets for build in found.values())
    size = sum(path.stat().st_size for path in (root / name).iterdir())
    assert found[name].num_bytes == size and found[name].promise == 'k=10'


def test_only_builds_are_removed(finished_build, tmp_path):
    root = tmp_path / 'root'
    shutil.copytree(finished_build, root)
    for name in ('odometer', '.locks', '..', 'no such build'):
        with pytest.raises(ValueError, match='no build'):
            remove_build(root, name)
    (build,) = kept_builds(root)
    remove_build(root, build.folder)
    assert kept_builds(root) == [] and (root / 'odometer').is_dir()
