import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits
from torch_geometric.utils import contains_isolated_nodes, is_undirected

from torch_geometric_cgt.datasets import SOURCES, Cora, DigitQuarters, Digits, load_source
from torch_geometric_cgt.datasets.sources import nearest_images
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


def test_digits_are_real_and_embedded():
    data = Digits()[0]
    assert (data.num_nodes, data.num_features) == (1797, 64)
    assert data.y.unique().tolist() == list(range(10))
    assert 0 <= data.x.min() and data.x.max() == 1
    assert is_undirected(data.edge_index) and not contains_isolated_nodes(data.edge_index)
    assert [int(data[f'{m}_mask'].sum()) for m in ('train', 'val', 'test')] == [898, 180, 719]
    source, target = data.edge_index
    assert (data.y[source] == data.y[target]).float().mean() > 0.9


def test_a_node_shows_one_quarter_of_its_image():
    whole, data = Digits()[0], DigitQuarters()[0]
    assert torch.equal(data.edge_index, whole.edge_index) and torch.equal(data.y, whole.y)
    image = data.x.view(-1, 2, 4, 2, 4)  # rows of quarters, rows, columns of quarters, columns
    seen = image.amax(dim=(2, 4)).flatten(1) > 0  # [N, 4]
    assert seen.sum(dim=1).max() == 1
    assert (seen.sum(dim=0) / 1797 - 0.25).abs().max() < 0.04  # any quarter, of any digit
    shown = data.x > 0
    assert torch.equal(data.x[shown], whole.x[shown])
    parts = whole.x.view(-1, 2, 4, 2, 4).amax(dim=(2, 4)).flatten(1) > 0
    assert (seen & ~parts).sum() == 0 and load_source('DigitQuarters').name == 'DigitQuarters'


def test_images_at_the_same_distance_are_neighbours_in_the_order_of_their_indices():
    pixels = np.array([[0, 0], [0, 2], [2, 0], [0, 2], [9, 9]])
    assert nearest_images(pixels, 2).tolist() == [[1, 2], [3, 0], [0, 1], [1, 0], [1, 2]]


def test_digits_do_not_depend_on_the_number_of_threads():
    edges = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            edges.append(Digits()[0].edge_index)
    assert torch.equal(*edges)
