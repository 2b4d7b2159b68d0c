"""Bad input: a clear error before any training, and nothing on disk."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.datasets import Digits, synthetic
from torch_geometric_cgt.errors import BudgetError, NotWritableError, SourceError


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
    'negative edge': (_bad(edge_index=torch.tensor([[0], [-2]])), 'got -2 to 0'),
    'several masks': (_bad(train_mask=torch.ones(120, 10).bool()), 'select one split'),
    'heterogeneous': (_hetero(), 'homogeneous'),
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


@pytest.mark.parametrize(
    'change, error, message',
    [
        ({'k': 0}, ValueError, 'got 0'),
        ({'k': 121}, ValueError, 'k=121 for 120 nodes'),
        ({'num_clusters': 13}, ValueError, '13 . 10 > 120'),
        ({'num_neighbors': []}, ValueError, 'at least one fan-out'),
        ({'num_neighbors': [5, 0]}, ValueError, 'integer >= 1'),
        ({'num_samples': 0}, ValueError, "'num_samples'"),
        ({'generator': {'colour': 'red'}}, ValueError, 'colour'),
        ({'generator': {'num_heads': 3}}, ValueError, 'divisible'),
    ],
)
def test_bad_parameter(graph, quick, change, error, message):
    with pytest.raises(error, match=message):
        SyntheticCGTDataset(graph, **{**quick, **change})
    assert not quick['root'].exists()


@pytest.mark.parametrize(
    'arguments, error, message',
    [
        ({'epsilon': 0.0}, BudgetError, 'positive.*got 0.0'),
        ({'epsilon': -1.0}, BudgetError, 'got -1.0'),
        ({'epsilon': 50.0, 'delta': 0.0}, BudgetError, 'between 0 and 1.*got 0.0'),
        ({'epsilon': 50.0, 'delta': 1.0}, BudgetError, 'between 0 and 1.*got 1.0'),
        ({'epsilon': 50.0, 'delta': 0.1}, BudgetError, '1 / n = 0.0083.*accept_large_delta'),
        ({'epsilon': 0.1}, BudgetError, 'too small for any signal in 120 nodes.*use at least'),
        ({'delta': 1e-5}, BudgetError, "give an 'epsilon'"),
        ({'private_args': {'unit': 'node'}}, BudgetError, "give an 'epsilon'"),
        ({'epsilon': 50.0, 'private_args': {'unit': 'person'}}, ValueError, 'person'),
        ({'epsilon': 50.0, 'private_args': {'colour': 1}}, ValueError, 'colour.*max_parents'),
        ({'epsilon': 50.0, 'private_args': {'form': 'gan'}}, ValueError, "'gan'"),
        ({'epsilon': 50.0, 'private_args': {'dp_sgd': {'steps': 3}}}, ValueError, 'steps'),
        ({'epsilon': 50.0, 'private_args': {'clusters': {'epsilon': 3}}}, ValueError, 'sets them'),
        ({'epsilon': 50.0, 'num_clusters': 5}, ValueError, "'num_clusters' is for k-anonymity"),
        ({'epsilon': 50.0, 'k': 30}, ValueError, "'k' is for k-anonymity .got k=30 and epsilon=50"),
        ({'epsilon': 'a'}, BudgetError, "'epsilon' must be a number .got 'a'"),
        ({'epsilon': 1e-6}, BudgetError, 'too small for any signal'),
    ],
)
def test_bad_budget(graph, tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        SyntheticCGTDataset(graph, root=tmp_path / 'root', log=False, **arguments)
    assert not (tmp_path / 'root').exists()


def test_unwritable_root(graph, quick, tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('')
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained before the error'))
    with pytest.raises(NotWritableError, match='file'):
        SyntheticCGTDataset(graph, **{**quick, 'root': tmp_path / 'file' / 'root'})
