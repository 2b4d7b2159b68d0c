r"""Quantizers: k-anonymous and differentially private clusterings of feature vectors."""

from torch_geometric_cgt.quantizer.base import Quantizer
from torch_geometric_cgt.quantizer.constrained_kmeans import ConstrainedKMeans, FlowKMeans
from torch_geometric_cgt.quantizer.kmeans_steps import cluster_means
from torch_geometric_cgt.quantizer.label_diversity import LabelHomogeneity, label_homogeneity
from torch_geometric_cgt.quantizer.private_kmeans import PrivateKMeans
from torch_geometric_cgt.quantizer.protected_means import protected_means, value_support
from torch_geometric_cgt.utils.linear import reduce_features

__all__ = [
    'ConstrainedKMeans',
    'FlowKMeans',
    'LabelHomogeneity',
    'PrivateKMeans',
    'Quantizer',
    'cluster_means',
    'label_homogeneity',
    'protected_means',
    'reduce_features',
    'value_support',
]
