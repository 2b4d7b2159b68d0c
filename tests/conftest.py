import os
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.graphs import random_graph
from tests.helpers.shards import (  # noqa: F401, hooks of pytest
    pytest_addoption,
    pytest_configure,
    pytest_ignore_collect,
)
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.nn import view_networks
from torch_geometric_cgt.privacy import ledger

torch.set_num_threads(1)  # small tensors: threads cost more than they bring


@pytest.fixture(autouse=True)
def no_user_folders(tmp_path_factory, monkeypatch):
    """Tests leave nothing behind in the cache folder of whoever runs them."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.getbasetemp() / 'cache'))


@pytest.fixture(scope='session', autouse=True)
def accounting_once():
    """Builds of one promise compose the same mechanisms: each composition is computed once.

    The tests of the accounting itself call the function that is not replaced.
    """

    def once(compute):
        computed = cache(compute)
        return lambda losses, delta, *coarseness: computed(tuple(losses), delta, *coarseness)

    with pytest.MonkeyPatch.context() as patch:
        for name in ('epsilon_of', 'substitution_epsilon_of'):
            patch.setattr(ledger, name, once(getattr(ledger, name)))
        yield


@pytest.fixture(scope='module')
def short_networks():
    """Networks on views are trained for a few epochs: the test does not depend on their scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_networks, 'EPOCHS', 10)
        patch.setattr(view_networks, 'MIN_STEPS', 10)
        yield


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


def quick_arguments(root: Path) -> dict:
    return {
        'k': 10,
        'num_neighbors': [3, 2],
        'root': root,
        'log': False,
        'device': 'cpu',
        'generator': {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2},
        'fit': FitConfig(epochs=2, batch_size=32),
    }


@pytest.fixture
def quick(tmp_path) -> dict:
    """Arguments that make a dataset of a small graph in about a second."""
    return quick_arguments(tmp_path / 'root')


@pytest.fixture(scope='session')
def finished_build(tmp_path_factory) -> Path:
    """The cache folder of a finished build of :obj:`graph`."""
    root = tmp_path_factory.mktemp('finished') / 'root'
    SyntheticCGTDataset(random_graph(), **quick_arguments(root))
    return root


@pytest.fixture
def cached(quick, finished_build) -> dict:
    """Arguments of a dataset of :obj:`graph` whose build is in the cache already."""
    shutil.copytree(finished_build, quick['root'])
    return quick
