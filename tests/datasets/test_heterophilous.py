import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import HeterophilousGraphDataset
from torch_geometric.utils import is_undirected

from torch_geometric_cgt.datasets import Actor, Minesweeper, load_source
from torch_geometric_cgt.datasets.heterophilous import FilteredGraph, SelectSplit, read_npz
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline import check_source

# nodes, undirected edges, features, classes, sizes of the first split
GRAPHS = {
    'Actor': (7600, 26659, 932, 5, [3648, 2432, 1520]),
    'SquirrelFiltered': (2223, 46998, 2089, 5, [1053, 718, 452]),
    'Minesweeper': (10000, 39402, 7, 2, [5000, 2500, 2500]),
    'Tolokers': (11758, 519000, 10, 2, [5879, 2939, 2940]),
}


@pytest.fixture
def heterophilous(tmp_path, monkeypatch) -> Path:
    """A folder with the published files, and an empty cache."""
    beside = Path(__file__).parents[3] / 'shared' / 'data'
    for folder in [os.environ.get('CGT_DATA_ROOT'), beside]:
        if folder and (Path(folder) / 'heterophilous' / 'actor.npz').is_file():
            monkeypatch.setenv('CGT_DATA_ROOT', str(folder))
            monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
            return Path(folder)
    pytest.skip('heterophilous/actor.npz is neither in $CGT_DATA_ROOT nor in ../shared/data')


def arrays(num_nodes=4, num_splits=2):
    mask = np.zeros((num_splits, num_nodes), dtype=bool)
    train, val, test = mask.copy(), mask.copy(), mask.copy()
    train[0, :2] = val[0, 2] = test[0, 3] = True
    train[1, 2:] = val[1, 0] = test[1, 1] = True
    return {
        'node_features': np.arange(2.0 * num_nodes, dtype=np.float32).reshape(num_nodes, 2),
        'node_labels': np.arange(num_nodes) % 2,
        'edges': np.array([[0, 1], [1, 2], [3, 3]]),
        'train_masks': train,
        'val_masks': val,
        'test_masks': test,
    }


def write(folder, name='actor', **changed):
    path = folder / name / 'raw' / f'{name}.npz'
    path.parent.mkdir(parents=True)
    np.savez(path, **{**arrays(), **changed})
    return path


@pytest.mark.parametrize('name', GRAPHS)
def test_published_files(heterophilous, name):
    num_nodes, num_edges, num_features, num_classes, sizes = GRAPHS[name]
    source = check_source(load_source(name))
    data = load_source(name)[0]
    assert (data.num_nodes, data.num_features) == (num_nodes, num_features)
    assert data.num_edges == 2 * num_edges and is_undirected(data.edge_index)
    assert source.num_classes == num_classes
    masks = [data.train_mask, data.val_mask, data.test_mask]
    assert [int(mask.sum()) for mask in masks] == sizes
    assert torch.stack(masks).sum(dim=0).max() == 1
    assert 'train_mask' not in load_source(name, random_split=True)[0]


def test_splits_of_published_files(heterophilous):
    first, third = Actor()[0], Actor(split=3)[0]
    assert not torch.equal(first.train_mask, third.train_mask)
    assert isinstance(Minesweeper(), HeterophilousGraphDataset)
    with pytest.raises(ValueError, match=r'0 to 9.*got 10'):
        _ = Actor(split=10)[0]


def test_a_graph_by_hand(tmp_path):
    write(tmp_path)
    data = Actor(str(tmp_path), split=1)[0]
    assert data.edge_index.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 3]]
    assert data.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]] and data.y.tolist() == [0, 1, 0, 1]
    assert data.train_mask.tolist() == [False, False, True, True]
    assert data.val_mask.tolist() == [True, False, False, False]
    dataset = FilteredGraph(str(tmp_path), 'actor')
    assert dataset.name == 'actor' and dataset[0].train_mask.shape == (4, 2)
    assert repr(SelectSplit(1)) == 'SelectSplit(1)'


def test_pyg_reads_the_same_format(tmp_path):
    write(tmp_path, 'minesweeper')
    ours = read_npz(tmp_path / 'minesweeper' / 'raw' / 'minesweeper.npz')
    theirs = Minesweeper(str(tmp_path))
    assert torch.equal(theirs[0].edge_index, ours.edge_index)
    assert theirs[0].train_mask.tolist() == [True, True, False, False]


def test_links_follow_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    for name, label in [('one', 0), ('two', 1)]:
        folder = tmp_path / name / 'heterophilous'
        folder.mkdir(parents=True)
        labels = np.full(4, label)
        np.savez(folder / 'minesweeper.npz', **{**arrays(), 'node_labels': labels})
        data = Minesweeper(str(tmp_path / name))[0]
        assert data.y.tolist() == [label] * 4  # not what was processed from the other folder
        assert [path.name for path in (tmp_path / name).iterdir()] == ['heterophilous']


@pytest.mark.parametrize(
    'changed, message',
    [
        ({'edges': np.array([[0, 4]])}, 'does not exist'),
        ({'edges': np.array([0, 1])}, 'edges of shape'),
        ({'node_labels': np.zeros(3, dtype=int)}, 'labels of shape'),
        ({'val_masks': np.zeros((2, 3), dtype=bool)}, 'masks'),
    ],
)
def test_inconsistent_files_are_refused(tmp_path, changed, message):
    with pytest.raises(SourceError, match=message):
        read_npz(write(tmp_path, **changed))


def test_damaged_files_are_refused(tmp_path):
    path = write(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(SourceError, match='damaged'):
        read_npz(path)
    np.savez(path, edges=np.zeros((1, 2), dtype=int))
    with pytest.raises(SourceError, match='node_features'):
        read_npz(path)
