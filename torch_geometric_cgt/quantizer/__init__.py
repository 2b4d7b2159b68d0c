r"""Clustering with a minimum cluster size, scikit-learn style."""

from torch_geometric_cgt.quantizer.constrained import ConstrainedKMeans
from torch_geometric_cgt.quantizer.features import cluster_means, reduce_features

__all__ = ['ConstrainedKMeans', 'cluster_means', 'reduce_features']
