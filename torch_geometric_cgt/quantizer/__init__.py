r"""Quantizers: k-anonymous and differentially private clusterings of feature vectors."""

from torch_geometric_cgt.quantizer.base import Quantizer
from torch_geometric_cgt.quantizer.centers import cluster_means
from torch_geometric_cgt.quantizer.constrained_kmeans import ConstrainedKMeans
from torch_geometric_cgt.quantizer.feature_space import reduce_features
from torch_geometric_cgt.quantizer.flow_kmeans import FlowKMeans
from torch_geometric_cgt.quantizer.label_diversity import LabelHomogeneity, label_homogeneity
from torch_geometric_cgt.quantizer.private_kmeans import PrivateKMeans

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
