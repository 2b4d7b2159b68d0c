import pytest

from torch_geometric_cgt.benchmark.gnn_training import GNNConfig
from torch_geometric_cgt.nn import view_networks


@pytest.fixture
def quick(tmp_path) -> list[str]:
    """Arguments of a build of the embedded graph that takes seconds."""
    arguments = '--source Digits --epochs 1 --quiet --num-neighbors 2 2'.split()
    return [*arguments, '--root', str(tmp_path / 'root')]


@pytest.fixture
def quick_gnns(monkeypatch) -> None:
    """GNNs that are evaluated, and networks on views, are trained for a few epochs."""
    monkeypatch.setattr(GNNConfig, 'for_roots', lambda _: GNNConfig(epochs=5))
    monkeypatch.setattr(view_networks, 'EPOCHS', 5)
    monkeypatch.setattr(view_networks, 'MIN_STEPS', 5)
