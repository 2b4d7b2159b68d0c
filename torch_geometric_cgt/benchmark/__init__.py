r"""GNNs on computation graphs, and how well generated graphs reproduce their scores."""

from torch_geometric_cgt.benchmark.evaluation import Evaluation, evaluate_dataset
from torch_geometric_cgt.benchmark.gnn_training import ALL_MODELS, MODELS, GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.zoo import PLAIN, ZOO, ZooConfig, zoo_scores

__all__ = [
    'ALL_MODELS',
    'MODELS',
    'PLAIN',
    'ZOO',
    'Evaluation',
    'GNNConfig',
    'ZooConfig',
    'evaluate_dataset',
    'make_gnn',
    'zoo_scores',
]
