r"""Clustering: with a minimum size for k-anonymity, or differentially private."""

from torch_geometric_cgt.quantizer.base import Quantizer
from torch_geometric_cgt.quantizer.constrained import ConstrainedKMeans
from torch_geometric_cgt.quantizer.flow_kmeans import FlowKMeans
from torch_geometric_cgt.quantizer.homogeneity import LabelHomogeneity, label_homogeneity
from torch_geometric_cgt.quantizer.means import cluster_means
from torch_geometric_cgt.quantizer.private import PrivateKMeans
from torch_geometric_cgt.quantizer.reduce import reduce_features

__all__ = [
    'ConstrainedKMeans',
    'FlowKMeans',
    'LabelHomogeneity',
    'PrivateKMeans',
    'Quantizer',
    'cluster_means',
    'label_homogeneity',
    'reduce_features',
]
