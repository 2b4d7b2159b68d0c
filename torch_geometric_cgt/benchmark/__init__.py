r"""GNNs on computation graphs, and how their scores agree."""

from torch_geometric_cgt.benchmark.evaluate import Evaluation, evaluate_dataset
from torch_geometric_cgt.benchmark.models import ALL_MODELS, MODELS, make_gnn
from torch_geometric_cgt.benchmark.training import GNNConfig

__all__ = ['ALL_MODELS', 'MODELS', 'Evaluation', 'GNNConfig', 'evaluate_dataset', 'make_gnn']
