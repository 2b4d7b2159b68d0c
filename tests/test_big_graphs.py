import importlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.utils import is_undirected, to_undirected

BENCHMARKS = Path(__file__).parents[1] / 'benchmarks'


@pytest.fixture
def graphs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delenv('CGT_DATA_ROOT', raising=False)
    return importlib.import_module('big_graphs')


def accuracy(data, x) -> float:
    """The accuracy of the nearest mean of a class, over its training nodes."""
    y, train = data.y, data.train_mask
    mean = torch.zeros(int(y.max()) + 1, x.size(1)).index_add_(0, y[train], x[train])
    mean /= y[train].bincount(minlength=len(mean)).clamp(min=1)[:, None]
    guess = torch.cdist(x[data.test_mask], mean).argmin(dim=1)
    return float((guess == y[data.test_mask]).float().mean())


def neighbor_mean(data, x):
    source, target = data.edge_index
    degree = target.bincount(minlength=data.num_nodes) + 1
    return torch.zeros_like(x).index_add_(0, target, x[source]).add(x) / degree[:, None]


@pytest.mark.parametrize(
    'name, scale, nodes, pairs, shape, homophily, train',
    [
        ('arxiv', 0.1, 16_934, 115_780, (128, 40), 0.65, 0.537),
        ('products', 0.01, 24_490, 618_591, (100, 47), 0.8, 0.08),
    ],
)
def test_made_up_graph(graphs, name, scale, nodes, pairs, shape, homophily, train):
    make = getattr(graphs, f'{name}_like')
    data = make(0, scale=scale)
    assert data.x.shape == (nodes, shape[0]) and data.x.dtype == torch.float32
    assert data.y.shape == (nodes,) and data.y.unique().numel() == shape[1]
    assert data.edge_index.dtype == data.y.dtype == torch.long
    assert 0.8 * pairs < data.num_edges / 2 < 1.05 * pairs
    assert is_undirected(data.edge_index) and not data.has_self_loops()
    assert data.is_coalesced() and 'all made up' in data.note
    degree = data.edge_index[1].bincount(minlength=nodes).float()
    assert degree.max() > 20 * degree.mean() and degree.mean() > 1.5 * degree.median()
    source, target = data.edge_index
    assert abs(float((data.y[source] == data.y[target]).float().mean()) - homophily) < 0.05
    share = data.y.bincount() / nodes
    assert 0.15 < share.max() < 0.3 and share.min() < 0.02
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert (masks.sum(dim=0) == 1).all() and abs(masks[0].float().mean() - train) < 1e-3

    again, other = make(0, scale=scale), make(1, scale=scale)
    assert all(torch.equal(again[key], value) for key, value in data if key != 'note')
    assert not torch.equal(other.edge_index, data.edge_index)
    assert not torch.equal(other.x, data.x)

    alone, together = accuracy(data, data.x), accuracy(data, neighbor_mean(data, data.x))
    assert 0.15 < alone < 0.6 and alone + 0.15 < together < 0.95


def test_ids_do_not_tell_the_class(graphs):
    y = graphs.products_like(0, scale=0.002).y
    assert float((y[1:] == y[:-1]).float().mean()) < 0.2


def test_real_structure_is_used_where_it_is(graphs, tmp_path):
    rng = np.random.default_rng(0)
    parts = {key: rng.integers(0, 50, 80, dtype=np.int32) for key in ('row', 'col')}
    y, split = rng.integers(0, 40, 50, dtype=np.uint8), rng.integers(0, 3, 50, dtype=np.uint8)
    (tmp_path / 'ogbn_arxiv').mkdir()
    np.savez(tmp_path / 'ogbn_arxiv' / 'structure.npz', **parts, y=y, split=split)
    data = graphs.arxiv_like(0, shared=tmp_path)
    assert data.note.startswith('real structure') and 'features made up' in data.note
    edges = torch.stack([torch.from_numpy(parts[key]).long() for key in ('row', 'col')])
    assert torch.equal(data.edge_index, to_undirected(edges, num_nodes=50))
    assert data.y.tolist() == y.tolist() and data.x.shape == (50, 128)
    for code, mask in enumerate(['train_mask', 'val_mask', 'test_mask']):
        assert data[mask].tolist() == (split == code).tolist()
