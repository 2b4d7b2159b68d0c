"""Each format is read back by its own reader, and is the forest of the release."""

import csv
import json

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from tests.helpers.exported import (
    NAMES,
    RECORDED,
    forest,
    projected,
    same_columns,
    with_edge_values,
)
from torch_geometric_cgt.release import read_release
from torch_geometric_cgt.release.export_formats import (
    ForestTables,
    forest_of,
    write_dgl,
    write_networkx,
    write_npz,
    write_parquet,
    write_pyg,
)

NODE_ATTRIBUTES = ('y', 'root_mask', 'depth', 'cluster', 'train_mask', 'val_mask', 'test_mask')


@pytest.mark.parametrize('name', NAMES)
def test_pyg_is_a_plain_data_object_without_code(name, tmp_path):
    write_pyg(tmp_path, read_release(RECORDED / name))
    with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        data = torch.load(tmp_path / 'data.pt', weights_only=True)
    expected = forest(RECORDED / name)
    assert type(data).__name__ == 'Data' and data.to_dict().keys() == expected.keys()
    assert same_columns(data, expected)
    data.validate()


@pytest.mark.parametrize('name', NAMES)
def test_npz_needs_no_pickle(name, tmp_path):
    release, expected = read_release(RECORDED / name), forest(RECORDED / name)
    write_npz(tmp_path, release)
    arrays = np.load(tmp_path / 'forest.npz', allow_pickle=False)
    x = expected.pop('x')
    assert same_columns(arrays, expected)
    assert np.array_equal(arrays['codebook'][arrays['cluster']], x)
    tokens = arrays['tree_tokens']
    null = release.trees.num_tokens
    assert np.array_equal(np.where(tokens < 0, null, tokens), release.trees.tokens.numpy())
    assert np.array_equal(tokens[arrays['tree'], arrays['slot']], arrays['cluster'])


@pytest.mark.parametrize('name', NAMES)
def test_parquet_tables_are_the_forest(name, tmp_path):
    pandas = pytest.importorskip('pandas')
    pytest.importorskip('pyarrow')
    write_parquet(tmp_path, read_release(RECORDED / name))
    expected = forest(RECORDED / name)
    tables = {path.stem: pandas.read_parquet(path) for path in tmp_path.iterdir()}
    assert set(tables) == {'nodes', 'edges', 'trees', 'codebook'}
    nodes, edges = tables['nodes'], tables['edges']
    assert same_columns(nodes, {column: expected[column] for column in NODE_ATTRIBUTES})
    assert np.array_equal(edges[['source', 'target']].to_numpy().T, expected['edge_index'])
    codebook = np.stack(tables['codebook']['x'])
    assert codebook.dtype == np.float32
    assert np.array_equal(codebook[nodes['cluster']], expected['x'])


@pytest.mark.parametrize('name', NAMES)
def test_dgl_folder_is_the_forest(name, tmp_path):
    yaml = pytest.importorskip('yaml')
    write_dgl(tmp_path, read_release(RECORDED / name))
    expected = forest(RECORDED / name)
    meta = yaml.safe_load((tmp_path / 'meta.yaml').read_text())
    assert meta['node_data'] == [{'file_name': 'nodes.csv'}]
    assert meta['edge_data'] == [{'file_name': 'edges.csv'}]
    with open(tmp_path / 'nodes.csv', newline='') as file:
        nodes = list(csv.DictReader(file))
    with open(tmp_path / 'edges.csv', newline='') as file:
        edges = list(csv.DictReader(file))
    assert [int(row['node_id']) for row in nodes] == list(range(len(expected['y'])))
    assert [int(row['label']) for row in nodes] == expected['y'].tolist()
    assert [row['train_mask'] == 'True' for row in nodes] == expected['train_mask'].tolist()
    x = np.array([[np.float32(v) for v in row['feat'].split(',')] for row in nodes])
    assert np.array_equal(x, expected['x'])
    pairs = [(int(row['src_id']), int(row['dst_id'])) for row in edges]
    assert np.array_equal(np.array(pairs).T, expected['edge_index'])


@pytest.mark.parametrize('name', NAMES)
def test_networkx_graph_is_the_forest(name, tmp_path):
    write_networkx(tmp_path, read_release(RECORDED / name))
    content = json.loads((tmp_path / 'forest.json').read_text())
    graph, expected = networkx.node_link_graph(content, edges='edges'), forest(RECORDED / name)
    assert graph.is_directed() and networkx.is_forest(graph)
    assert list(graph.nodes) == list(range(len(expected['y'])))
    for column in NODE_ATTRIBUTES:
        assert [v for _, v in graph.nodes(data=column)] == expected[column].tolist()
    assert sorted(graph.edges) == sorted(map(tuple, expected['edge_index'].T.tolist()))
    codebook = np.array(graph.graph['codebook'], dtype=np.float32)
    clusters = [c for _, c in graph.nodes(data='cluster')]
    assert np.array_equal(codebook[clusters], expected['x'])


def test_a_projection_and_half_precision_are_kept(tmp_path):
    release = projected()
    write_npz(tmp_path, release)
    write_networkx(tmp_path, release)
    arrays = np.load(tmp_path / 'forest.npz', allow_pickle=False)
    assert np.array_equal(arrays['projection'], release.projection.numpy())
    assert np.array_equal(arrays['codebook'], release.codebook.float().numpy())
    facts = json.loads((tmp_path / 'forest.json').read_text())['graph']
    assert np.array_equal(np.float32(facts['projection']), release.projection.numpy())
    assert ForestTables.of(release).projection.keys() == {'row'}


def test_tables_have_one_order_of_columns():
    columns = list(ForestTables.of(read_release(RECORDED / 'nodes')).nodes)
    assert columns[:4] == ['node', 'tree', 'slot', 'y'] and columns[-1] == 'test_mask'


def test_edge_weights_and_attributes_are_exported(tmp_path):
    pandas = pytest.importorskip('pandas')
    pytest.importorskip('pyarrow')
    release = with_edge_values()
    data = forest_of(release)
    weight, attr = data.edge_weight.numpy(), data.edge_attr.numpy()
    for write in (write_npz, write_dgl, write_networkx, write_parquet):
        write(tmp_path, release)
    arrays = np.load(tmp_path / 'forest.npz', allow_pickle=False)
    assert same_columns(arrays, {'edge_weight': weight, 'edge_attr': attr})
    table = pandas.read_parquet(tmp_path / 'edges.parquet')
    assert np.array_equal(table['edge_weight'], weight)
    assert np.array_equal(np.stack(table['edge_attr']), attr)
    rows = pandas.read_csv(tmp_path / 'edges.csv')
    found = [np.float32(text.split(',')) for text in rows['edge_attr']]
    assert np.array_equal(found, attr) and np.array_equal(np.float32(rows['edge_weight']), weight)
    edges = json.loads((tmp_path / 'forest.json').read_text())['edges']
    assert np.array_equal(np.float32([edge['edge_attr'] for edge in edges]), attr)
