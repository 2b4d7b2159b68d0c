"""Sources that are refused: a clear error before any training, and nothing on disk."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.datasets import Digits
from torch_geometric_cgt.errors import SourceError


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
