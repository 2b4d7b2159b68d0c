import pytest
import torch

from torch_geometric_cgt.datasets import SOURCES, Cora, load_source
from torch_geometric_cgt.errors import SourceError


def test_unknown_source_lists_the_known_ones():
    with pytest.raises(ValueError, match=r'Digits.*Cora.*Physics'):
        load_source('Korra')


def test_cora_from_a_folder_that_must_not_be_written_to(data_root, monkeypatch, tmp_path):
    monkeypatch.setenv('CGT_DATA_ROOT', data_root)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    folder = tmp_path / 'data' / 'Cora'
    folder.chmod(0o555)
    data = Cora()[0]
    assert (data.num_nodes, data.num_features) == (2708, 1433)
    assert [path.name for path in folder.iterdir()] == ['raw']
    assert (tmp_path / 'cache' / 'torch_geometric_cgt' / 'linked' / 'Cora' / 'processed').is_dir()


def test_links_follow_the_folder_they_were_made_for(data_root, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    (tmp_path / 'data' / 'Cora').chmod(0o555)
    stale = tmp_path / 'cache' / 'torch_geometric_cgt' / 'linked' / 'Cora' / 'raw'
    stale.mkdir(parents=True)  # left behind by a download that failed
    assert Cora(data_root)[0].num_nodes == 2708
    assert stale.is_symlink()


def test_missing_files_are_named(monkeypatch, tmp_path):
    def offline(*_, **__):
        raise OSError('no network')

    monkeypatch.setenv('CGT_DATA_ROOT', str(tmp_path / 'nowhere'))
    monkeypatch.setattr('torch_geometric.datasets.planetoid.Planetoid.download', offline)
    with pytest.raises(SourceError, match=r'nowhere.*no network.*CGT_DATA_ROOT'):
        load_source('Cora')


def test_largest_component_and_random_split(data_root, monkeypatch):
    monkeypatch.setenv('CGT_DATA_ROOT', data_root)
    assert 'train_mask' in load_source('Cora')[0]
    data = load_source('Cora', largest_component=True, random_split=True)[0]
    assert data.num_nodes == 2485 and data.num_edges == 2 * 5069
    assert 'train_mask' not in data


@pytest.mark.parametrize('name', ['CiteSeer', 'Photo'])
def test_other_sources_load(data_root, monkeypatch, name):
    monkeypatch.setenv('CGT_DATA_ROOT', data_root)
    data = SOURCES[name]()[0]
    assert data.num_nodes > 3000 and data.y.dtype == torch.long
