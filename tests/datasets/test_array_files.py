"""Files of arrays and tensors, and files that try to run code."""

import os
import pickle

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import KarateClub
from torch_geometric.io import read_npz

from tests.helpers.tables import own_graph, write_npz, write_pt
from torch_geometric_cgt.datasets.array_files import (
    read_npy_folder,
    read_npz_graph,
    read_pt_graph,
)
from torch_geometric_cgt.datasets.source_kinds import open_source
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline import check_source


def assert_own(data):
    for name, value in own_graph().to_dict().items():
        assert torch.equal(data[name], value), name


def test_arrays_with_the_names_of_attributes(tmp_path):
    data, reading = read_npz_graph(write_npz(tmp_path / 'g.npz', own_graph()))
    assert_own(data)
    assert ('array', 'x', '[120, 8], float32') in reading.rows()


def test_other_names_and_types(tmp_path):
    data = own_graph()
    arrays = {
        'node_features': data.x.numpy(),
        'node_labels': data.y.numpy().astype(np.int32),
        'edges': data.edge_index.numpy().T.astype(np.uint32),
        **{f'{name}s': data[name].numpy()[None] for name in ('train_mask', 'val_mask')},
        'test_masks': data.test_mask.numpy()[None],
    }
    np.savez(tmp_path / 'g.npz', **arrays)
    found = read_npz_graph(tmp_path / 'g.npz')[0]
    assert torch.equal(found.edge_index, data.edge_index) and torch.equal(found.y, data.y)
    assert torch.equal(found.train_mask, data.train_mask[:, None])


def test_long_doubles_are_doubles(tmp_path):
    data = own_graph()
    x = data.x.numpy().astype(np.longdouble)
    np.savez(tmp_path / 'g.npz', x=x, y=data.y.numpy(), edge_index=data.edge_index.numpy())
    assert torch.equal(read_npz_graph(tmp_path / 'g.npz')[0].x, data.x.double())


def test_sparse_matrices_are_read_as_pyg_reads_them(tmp_path):
    data = own_graph()
    x = csr_matrix((data.x > 0).float().numpy())
    upper = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].numpy()
    adj = csr_matrix((np.ones(upper.shape[1]), upper), shape=(120, 120))
    parts = {}
    for name, matrix in (('attr', x), ('adj', adj)):
        parts |= {f'{name}_{part}': getattr(matrix, part) for part in ('data', 'indices', 'indptr')}
        parts[f'{name}_shape'] = matrix.shape
    np.savez(tmp_path / 'g.npz', labels=data.y.numpy(), **parts)
    found, expected = read_npz_graph(tmp_path / 'g.npz')[0], read_npz(str(tmp_path / 'g.npz'))
    assert set(found.keys()) == set(expected.keys())
    for name, value in expected.to_dict().items():
        assert torch.equal(found[name], value), name
    assert torch.equal(found.edge_index, data.edge_index)


class Code:
    """An object that leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_an_array_of_objects_is_refused_and_does_not_run(tmp_path):
    data = own_graph()
    objects = np.array([Code(tmp_path / 'ran')], dtype=object)
    arrays = {'x': data.x.numpy(), 'edge_index': data.edge_index.numpy(), 'y': objects}
    np.savez(tmp_path / 'g.npz', **arrays)
    with pytest.raises(SourceError, match=r"'y' .*Python objects.*can run code"):
        read_npz_graph(tmp_path / 'g.npz')
    assert not (tmp_path / 'ran').exists()
    np.load(tmp_path / 'g.npz', allow_pickle=True)['y']  # the file is what it claims to be
    assert (tmp_path / 'ran').exists()


@pytest.mark.parametrize('kind', ['attribute', 'alone', 'plain pickle'])
def test_a_graph_with_other_objects_is_refused_and_does_not_run(tmp_path, kind):
    code, path = Code(tmp_path / 'ran'), tmp_path / 'g.pt'
    if kind == 'plain pickle':
        path.write_bytes(pickle.dumps(code))
    else:
        data = own_graph()
        data.more = code
        torch.save(data if kind == 'attribute' else code, path)
    with pytest.raises(SourceError, match='not read because it can run code') as error:
        read_pt_graph(path)
    assert 'mkdir' in str(error.value) or kind == 'plain pickle'
    assert not (tmp_path / 'ran').exists()
    if kind == 'attribute':
        torch.load(path, weights_only=False)
        assert (tmp_path / 'ran').exists()


def test_graphs_dictionaries_and_datasets(tmp_path):
    assert_own(read_pt_graph(write_pt(tmp_path / 'g.pt', own_graph()))[0])
    torch.save(own_graph().to_dict(), tmp_path / 'dictionary.pt')
    assert_own(read_pt_graph(tmp_path / 'dictionary.pt')[0])
    KarateClub.save([own_graph()], str(tmp_path / 'dataset.pt'))
    assert_own(read_pt_graph(tmp_path / 'dataset.pt')[0])
    KarateClub.save([own_graph(), own_graph()], str(tmp_path / 'two.pt'))
    with pytest.raises(SourceError, match='dataset of 2 graphs'):
        read_pt_graph(tmp_path / 'two.pt')


def test_a_heterogeneous_graph_is_read_for_the_error_that_explains_it(tmp_path):
    data = HeteroData()
    data['a'].x = torch.zeros(2, 1)
    data['a', 'to', 'a'].edge_index = torch.zeros(2, 1).long()
    torch.save(data, tmp_path / 'g.pt')
    assert isinstance(read_pt_graph(tmp_path / 'g.pt')[0], HeteroData)


@pytest.mark.parametrize(
    'arrays, message',
    [
        ({'x': np.ones((2, 1))}, r"no array \['edge_index', 'y'\].*got \['x'\]"),
        ({'adj_data': np.ones(2)}, "no array .*'attr_data'"),
        (
            {'x': np.ones((2, 1)), 'edge_index': np.ones((2, 1)), 'y': np.array(['a', 'b'])},
            r"'y' .*must hold numbers .*np\.unique\(y, return_inverse=True\)",
        ),
    ],
)
def test_wrong_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / 'g.npz', **arrays)
    with pytest.raises(SourceError, match=message):
        read_npz_graph(tmp_path / 'g.npz')


@pytest.mark.parametrize('content', [b'', b'PK\x03\x04damaged', b'\x80\x02garbage'])
def test_damaged_files(tmp_path, content):
    for read, name in ((read_npz_graph, 'g.npz'), (read_pt_graph, 'g.pt')):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=name):
            read(tmp_path / name)


def test_text_with_the_name_of_a_graph(tmp_path):
    for name, advice in (('g.pt', r'torch\.save\(data'), ('g.npz', r'numpy\.savez\(path')):
        (tmp_path / name).write_text('hello')
        with pytest.raises(SourceError, match=rf'{name}. is not a readable .*{advice}'):
            open_source(str(tmp_path / name))


def test_a_tensor_is_no_graph(tmp_path):
    torch.save(torch.ones(3), tmp_path / 'g.pt')
    with pytest.raises(SourceError, match="got 'Tensor'"):
        read_pt_graph(tmp_path / 'g.pt')
    torch.save(Data(x=torch.ones(3, 1)), tmp_path / 'g.pt')
    assert read_pt_graph(tmp_path / 'g.pt')[0].num_nodes == 3


def test_classes_that_pyg_allows_stay_allowed(tmp_path):
    before = torch.serialization.get_safe_globals()
    assert Data in before
    read_pt_graph(write_pt(tmp_path / 'g.pt', own_graph()))
    assert set(torch.serialization.get_safe_globals()) == set(before)


def write_npy(folder, data):
    for name, value in data.to_dict().items():
        np.save(folder / f'{name}.npy', value.numpy())


@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
def test_arrays_of_a_folder_are_mapped(tmp_path, dtype):
    expected = own_graph()
    expected.x = expected.x.to(dtype)
    write_npy(tmp_path, expected)
    data, reading = read_npy_folder(tmp_path)
    for name, value in expected.to_dict().items():
        assert torch.equal(data[name], value), name
    assert ('array', 'y', '[120], int64') in reading.rows()
    # A page that is read again shows what another program has written there in the meantime.
    on_disk = np.load(tmp_path / 'edge_index.npy', mmap_mode='r+')
    on_disk[0, 0] = 77
    on_disk.flush()
    assert int(data.edge_index[0, 0]) == 77
    data.x[0, 0] = 5.0  # and nothing that is changed here reaches the file
    assert np.load(tmp_path / 'x.npy')[0, 0] == expected.x[0, 0].item()


def test_a_mapped_graph_is_a_source_that_is_not_copied(tmp_path):
    write_npy(tmp_path, own_graph())
    source = open_source(tmp_path, name='Mine')
    assert source.name == 'Mine' and source.num_classes == 3
    assert source[0].x.data_ptr() == source[0].x.data_ptr()
    checked = check_source(source).data
    assert checked.x.data_ptr() == source[0].x.data_ptr()
    assert checked.edge_index.data_ptr() == source[0].edge_index.data_ptr()
    with pytest.raises(SourceError, match='both directions'):
        open_source(tmp_path, directed=False)


def test_a_folder_of_objects_or_without_edges_is_refused(tmp_path):
    write_npy(tmp_path, own_graph())
    (tmp_path / 'edge_index.npy').unlink()
    with pytest.raises(SourceError, match=r"no array \['edge_index'\]"):
        read_npy_folder(tmp_path)
    np.save(tmp_path / 'edge_index.npy', np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(SourceError, match=r'edge_index\.npy.* not a readable'):
        read_npy_folder(tmp_path)
