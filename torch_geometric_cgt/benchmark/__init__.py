r"""GNNs on computation graphs, and how well generated graphs reproduce their scores."""

from torch_geometric_cgt.benchmark.gnn_training import ALL_MODELS, MODELS, GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.metrics import Evaluation, evaluate_dataset

__all__ = ['ALL_MODELS', 'MODELS', 'Evaluation', 'GNNConfig', 'evaluate_dataset', 'make_gnn']
