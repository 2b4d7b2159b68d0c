import os
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from torch_geometric_cgt import FitConfig

torch.set_num_threads(1)  # small tensors: threads cost more than they bring


@pytest.fixture(autouse=True)
def no_user_folders(tmp_path_factory, monkeypatch):
    """Tests leave nothing behind in the cache folder of whoever runs them."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.getbasetemp() / 'cache'))


@pytest.fixture
def data_root(tmp_path) -> str:
    """A writable root with links to the raw files of the paper's graphs."""
    beside = Path(__file__).parents[2] / 'shared' / 'data'
    for folder in [os.environ.get('CGT_DATA_ROOT'), beside]:
        if folder and (Path(folder) / 'Cora' / 'raw').is_dir():
            for raw in Path(folder).glob('*/raw'):
                (tmp_path / 'data' / raw.parent.name).mkdir(parents=True)
                (tmp_path / 'data' / raw.parent.name / 'raw').symlink_to(raw.resolve())
            return str(tmp_path / 'data')
    pytest.skip('the raw files of Cora are neither in $CGT_DATA_ROOT nor in ../shared/data')


def random_graph(num_nodes=120, num_edges=300, num_features=8, num_classes=3, seed=0) -> Data:
    """A graph whose features and edges both tell something of the labels."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (num_nodes,), generator=rng)
    y[:num_classes] = torch.arange(num_classes)
    centre = 2 * torch.randn(num_classes, num_features, generator=rng)
    x = centre[y] + torch.randn(num_nodes, num_features, generator=rng)
    edges = torch.randint(num_nodes, (2, 4 * num_edges), generator=rng)
    alike = y[edges[0]] == y[edges[1]]
    edges = edges[:, alike | (torch.rand(alike.shape, generator=rng) < 0.1)][:, :num_edges]
    return Data(x=x, edge_index=to_undirected(edges, num_nodes=num_nodes), y=y)


@pytest.fixture
def graph() -> Data:
    return random_graph()


@pytest.fixture
def quick(tmp_path) -> dict:
    """Arguments that make a dataset of a small graph in about a second."""
    return {
        'k': 10,
        'num_neighbors': [3, 2],
        'root': tmp_path / 'root',
        'log': False,
        'device': 'cpu',
        'generator': {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2},
        'fit': FitConfig(epochs=2, batch_size=32),
    }
