import os
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.graphs import random_graph
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
