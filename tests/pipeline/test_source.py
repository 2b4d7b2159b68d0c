"""Sources that are refused: a clear error before any training, and nothing on disk."""

import json
import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric import transforms as T
from torch_geometric.data import Data, HeteroData, TemporalData

from tests.helpers.builds import plain
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.data import split_of
from torch_geometric_cgt.datasets import Digits
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline import check_source
from torch_geometric_cgt.pipeline.source import CARRIED


def _bad(**changes) -> Data:
    data = random_graph()
    for key, value in changes.items():
        data[key] = value
    return data


def _with_nan() -> Data:
    data = random_graph()
    data.x[3, 1] = float('nan')
    return data


class _Pair(Digits):
    def len(self):
        return 2


def _hetero() -> HeteroData:
    data = HeteroData()
    data['a'].x = torch.zeros(3, 1)
    return data


BAD_SOURCES = {
    'no x': (_bad(x=None), "no node features 'x'"),
    'no y': (_bad(y=None), "no labels 'y'"),
    'float y': (_bad(y=torch.rand(120)), 'integer class labels'),
    'multi-label y': (_bad(y=torch.zeros(120, 4).long()), 'multi-label'),
    'short y': (_bad(y=torch.zeros(7).long()), '120 entries'),
    'nothing labelled': (_bad(y=torch.full((120,), -1)), 'No node'),
    'nan': (_with_nan(), 'row 3, column 1'),
    'inf': (_bad(x=torch.full((120, 2), float('inf'))), 'finite'),
    'no edge_index': (_bad(edge_index=None), "no 'edge_index'"),
    'edge out of range': (_bad(edge_index=torch.tensor([[0], [120]])), 'got 0 to 120'),
    'logical edges': (_bad(edge_index=torch.ones(2, 3).bool()), 'integer matrix .*torch.bool'),
    'negative edge': (_bad(edge_index=torch.tensor([[0], [-2]])), 'got -2 to 0'),
    'several masks': (_bad(train_mask=torch.ones(120, 10).bool()), 'select one split'),
    'indices as a mask': (_bad(val_mask=torch.tensor([3, 7])), "name them 'val_idx'"),
    'labels beyond the nodes': (_bad(y=torch.tensor([2020, 2021]).repeat(60)), 'got 2021.*unique'),
    'a label of the graph': (_bad(y=torch.tensor([1])), 'one label per node .got 1'),
    'heterogeneous': (_hetero(), 'homogeneous'),
    'link split': (_bad(edge_label_index=torch.zeros(2, 3).long()), 'RandomLinkSplit'),
    'several graphs': (_Pair(), 'one graph .got 2'),
    'empty': (Data(x=torch.zeros(0, 3), edge_index=torch.zeros(2, 0).long()), 'empty'),
    'not a graph': ([1, 2], "got 'list'"),
}


@pytest.mark.parametrize('name', BAD_SOURCES)
def test_bad_source(quick, name):
    source, message = BAD_SOURCES[name]
    with pytest.raises(SourceError, match=message):
        SyntheticCGTDataset(source, **quick)
    assert not quick['root'].exists()


def changed(**attributes) -> Data:
    data = random_graph()
    for name, value in attributes.items():
        data[name] = value
    return data


def bipartite() -> HeteroData:
    data = HeteroData()
    data['user'].x, data['user'].y = torch.rand(200, 4), torch.zeros(200).long()
    data['item'].x = torch.rand(50, 4)
    data['user', 'buys', 'item'].edge_index = torch.zeros(2, 5).long()
    return data


def with_own_edges() -> HeteroData:
    data = bipartite()
    data['user', 'knows', 'user'].edge_index = torch.zeros(2, 5).long()
    return data


REFUSED = {
    'NumPy features': (changed(x=np.ones((120, 2))), r"'numpy.ndarray'|'ndarray'.*from_numpy"),
    'features in a list': (changed(x=[[1.0]] * 120), r"'list'.*torch\.tensor"),
    'NumPy labels': (changed(y=np.ones(120)), r"'y' must be a 'torch\.Tensor'"),
    'whole numbers as fractions': (changed(y=torch.ones(120)), r'data\.y\.long\(\)'),
    'fractions as labels': (changed(y=torch.rand(120)), 'bucketize'),
    'one-hot labels': (changed(y=torch.eye(120).long()), r'argmax\(1\)'),
    'a NumPy mask': (changed(train_mask=np.ones(120, dtype=bool)), "'train_mask'.*from_numpy"),
    'a mask in a list': (changed(test_mask=[True] * 120), r"'test_mask'.*torch\.tensor"),
    'edges in rows': (changed(edge_index=torch.zeros(9, 2).long()), r'\[9, 2\].*edge_index\.t\(\)'),
    'edges that are fractions': (changed(edge_index=torch.zeros(2, 0)), r'edge_index\.long\(\)'),
    'NumPy edges': (changed(edge_index=np.ones((2, 3))), "'edge_index' must be a 'torch"),
    'no features': (Data(edge_index=torch.zeros(2, 3).long(), num_nodes=9), 'LocalDegreeProfile'),
    'images': (changed(x=torch.rand(120, 4, 4)), r'\[120, 4, 4\].*flatten\(1\)'),
    'a vector': (changed(x=torch.rand(120)), r'\[120\].*view\(-1, 1\)'),
    'complex features': (changed(x=torch.rand(120, 2) * 1j), 'complex64.*view_as_real'),
    'ToSparseTensor': (T.ToSparseTensor()(random_graph()), r"'ToSparseTensor'.*flip\(0\)"),
    'a sparse edge_index': (changed(edge_index=torch.eye(120).to_sparse_csr()), 'to_edge_index'),
    'a link split': (T.RandomLinkSplit()(random_graph())[0], 'RandomLinkSplit.*of the release'),
    'three link splits': (T.RandomLinkSplit()(random_graph()), '3 graphs.*before the split'),
    'a path': ('nodes.csv', 'load_source'),
    'a class': (Digits, r"'Digits' is a class; create an object of it, 'Digits\(\.\.\.\)'"),
    'a dictionary': (random_graph().to_dict(), r'Data\.from_dict'),
    'a graph of networkx': (nx.path_graph(3), 'from_networkx'),
    'sparse edge values': (changed(edge_attr=torch.eye(9).to_sparse()), 'to_dense'),
    'events': (TemporalData(), "got 'TemporalData'"),
    'users and items': (bipartite(), r"user-buys-item.*two labelled nodes 'user'.*AddMetaPaths"),
    'users who know users': (with_own_edges(), r"edges among them.*'user', 'knows', 'user'"),
    'indices out of range': (changed(train_idx=torch.tensor([3, 120])), 'got 3 to 120'),
    'fractions as indices': (changed(val_idx=torch.rand(3)), "'val_idx' must hold node ids"),
    'two splits': (
        changed(train_idx=torch.tensor([1]), train_mask=torch.ones(120).bool()),
        'two different splits',
    ),
}


@pytest.mark.parametrize('name', REFUSED)
def test_the_error_says_what_it_is_and_what_to_do(name):
    source, message = REFUSED[name]
    with pytest.raises(SourceError, match=message):
        check_source(source)


def test_the_advice_to_undo_a_sparse_adjacency_works():
    from torch_geometric.utils import sort_edge_index, to_edge_index

    data = random_graph()
    expected = sort_edge_index(data.edge_index)
    data = T.ToSparseTensor()(data)
    data.edge_index = to_edge_index(data.adj_t)[0].flip(0)
    del data.adj_t
    assert torch.equal(sort_edge_index(check_source(data).data.edge_index), expected)


def test_the_advice_for_users_and_items_works():
    data = bipartite()
    data['user', 'buys', 'item'].edge_index = torch.tensor([[0, 1, 2], [7, 7, 8]])
    paths = [[('user', 'item'), ('item', 'user')]]
    data = T.AddMetaPaths(paths)(T.ToUndirected()(data))
    edges = data['user', 'metapath_0', 'user'].edge_index
    source = check_source(Data(x=data['user'].x, y=data['user'].y, edge_index=edges))
    assert sorted(source.data.edge_index.t().tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize('name', ['k', 'num_samples'])
@pytest.mark.parametrize('value, kind', [('30', 'str'), (30.0, 'float'), (True, 'bool')])
def test_a_number_of_another_type_is_named(quick, name, value, kind):
    with pytest.raises(ValueError, match=f"'{name}' must be an integer .*'{kind}'"):
        SyntheticCGTDataset(random_graph(), **{**quick, name: value})


def test_booleans_become_numbers():
    data = changed(x=torch.eye(120).bool(), y=torch.arange(120) % 2 == 0)
    source = check_source(data)
    assert source.data.x.dtype == torch.float and source.data.x.sum() == 120
    assert source.num_classes == 2


@pytest.mark.parametrize('shape', [(120, 1), (1, 120)])
def test_labels_may_be_a_row_or_a_column(shape):
    data = random_graph()
    assert torch.equal(check_source(changed(y=data.y.view(shape))).data.y, data.y)


def test_features_may_be_the_output_of_a_model(quick):
    data = random_graph()
    expected = SyntheticCGTDataset(data, **plain(quick))
    data.x = data.x.clone().requires_grad_() * 1
    dataset = SyntheticCGTDataset(data, **plain(quick), force_reload=True)
    assert torch.equal(dataset.tokens, expected.tokens)
    assert torch.equal(dataset.codebook, expected.codebook) and data.x.requires_grad


@pytest.mark.parametrize('lowest', [0, -1])
def test_labels_of_no_node_are_named_and_the_advice_numbers_the_others(lowest):
    data = changed(y=torch.tensor([0, 7, 3, 7]).repeat(30))
    if lowest < 0:
        data.y[:2] = -1
    (text,) = check_source(data).warnings()
    assert text.startswith('The largest label is 7') and 'the label 1, 2, 4 and 2 more' in text
    exec(text.split("'")[1], {'data': data})
    assert data.y[2:6].tolist() == [1, 2, 0, 2] and int(data.y.min()) == lowest
    assert check_source(data).warnings() == []


SPLITS = {
    'train_idx': {'train_idx': [0, 1], 'val_idx': [2], 'test_idx': [5]},
    'valid_idx': {'train_idx': [0, 1], 'valid_idx': [2], 'test_idx': [5]},
    'split_idx': {'split_idx': {'train': [0, 1], 'valid': [2], 'test': [5]}},
    'masks as indices': {'train_idx': torch.arange(120) < 2, 'val_idx': [2], 'test_idx': [5]},
    'equal masks': {
        'train_mask': torch.arange(120) < 2,
        'split_idx': {'train': [0, 1], 'val': [2], 'test': [5]},
    },
}


@pytest.mark.parametrize('name', SPLITS)
@pytest.mark.parametrize('kind', [torch.as_tensor, np.asarray])
def test_splits_by_indices_are_masks(name, kind):
    def convert(value):
        return {k: kind(v) for k, v in value.items()} if isinstance(value, dict) else kind(value)

    given = {k: v if k.endswith('mask') else convert(v) for k, v in SPLITS[name].items()}
    data = changed(**given)
    source = check_source(data)
    assert source.split.tolist() == [1, 1, 2, 0, 0, 4, *[0] * 114]
    assert source.not_carried == () and ('train_mask' in given or split_of(data) is None)


LOST = {
    'pos': torch.rand(120, 3),
    'time': torch.arange(120),
    'node_id': [f'person {i}' for i in range(120)],
    'n_id': torch.arange(120),
    'node_year': torch.zeros(120, 1),
    'edge_type': torch.zeros(9),
    'name': 'my graph',
}


@pytest.mark.parametrize('name', LOST)
def test_an_attribute_that_is_lost_is_named(name):
    source = check_source(changed(**{name: LOST[name]}))
    assert source.not_carried == (name,)
    assert [text for text in source.warnings() if f"'{name}'" in text and 'on its card' in text]


@pytest.mark.parametrize('name', ['edge_attr', 'edge_weight'])
def test_an_attribute_of_edges_is_carried_over_or_named(name):
    data = random_graph()
    data[name] = torch.ones(data.num_edges)
    lost = check_source(data).not_carried
    assert lost == (() if name in CARRIED else (name,))


def test_nothing_is_lost_of_an_ordinary_graph():
    source = check_source(changed(train_mask=torch.ones(120).bool(), num_nodes=120, pos=None))
    assert source.not_carried == () and source.warnings() == []


def test_what_is_lost_is_warned_of_once_and_on_the_card(quick, tmp_path):
    data = changed(pos=LOST['pos'], time=LOST['time'])
    with pytest.warns(UserWarning) as caught:
        dataset = SyntheticCGTDataset(data, **plain(quick))
    texts = [str(each.message) for each in caught if 'not carried over' in str(each.message)]
    assert len(texts) == 1 and "'pos', 'time'" in texts[0]
    assert caught[0].filename == __file__  # it points to the user's line
    dataset.save(tmp_path / 'release')
    card = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert card['source']['not_carried'] == ['pos', 'time']
    assert 'not carried over: `pos`, `time`' in (tmp_path / 'release' / 'README.md').read_text()
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert SyntheticCGTDataset.load(tmp_path / 'release').card == dataset.card


def test_roots_without_neighbours_are_counted():
    data = random_graph()
    fan = torch.stack([torch.arange(1, 120), torch.zeros(119).long()])
    data.edge_index = fan
    (text,) = check_source(data).warnings()
    assert text.startswith('119 of 120 roots') and 'ToUndirected()' in text
    data.edge_index = fan.flip(0)
    assert check_source(data).warnings() == []
    data.edge_index = fan[:, :0]
    (text,) = check_source(data).warnings()
    assert '120 of 120' in text and 'no edges at all' in text
