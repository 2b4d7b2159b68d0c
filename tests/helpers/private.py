"""Small differentially private datasets."""

from pathlib import Path

from torch_geometric.data import Data

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.pipeline import DifferentialPrivacy
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig

QUICK_DP_SGD = DPSGDConfig(epochs=3.0, batch_size=60, hidden_channels=16)


FROZEN = {'unit': 'frozen_record'}  # with models of trees, for small graphs


def private_dataset(graph: Data, folder: Path, epsilon=20.0, **promise) -> SyntheticCGTDataset:
    """A private dataset of a graph, with its cache in ``folder / 'root'``."""
    return SyntheticCGTDataset(
        graph,
        num_neighbors=[3, 2],
        root=folder / 'root',
        log=False,
        device='cpu',
        privacy=DifferentialPrivacy(epsilon, **promise),
    )
