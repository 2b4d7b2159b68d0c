r"""Feature vectors before and after clustering: reduction and cluster means."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor


def reduce_features(x: Tensor, n_components: int = 64, seed: int = 0) -> np.ndarray:
    r"""Maps features to the space in which clusters are sought: principal
    components, behind tf-idf weights where the features are a bag of words.

    Rare words tell more of a document than common ones, and long documents
    are not closer to each other than short ones: weighted, the clusters of
    Cora keep more of what a GNN needs. What is released are means of the
    features as they were given.

    Args:
        x (torch.Tensor): The features, ``[N, F]``.
        n_components (int, optional): The number of components; features of no
            more columns are not projected. (default: :obj:`64`)
        seed (int, optional): The seed of the randomised solver.
            (default: :obj:`0`)
    """
    rows = x.double()
    if is_bag_of_words(x):
        rows = tf_idf(rows)
    if x.size(1) <= n_components or x.size(0) <= n_components:
        return rows.numpy()
    pca = PCA(n_components, svd_solver='randomized', random_state=seed)
    return pca.fit_transform(rows.numpy())


def is_bag_of_words(x: Tensor) -> bool:
    r"""Whether features look like counts of words: none below zero, and nine
    of ten zero.
    """
    return bool(x.min() >= 0) and float((x == 0).double().mean()) > 0.9


def tf_idf(x: Tensor) -> Tensor:
    r"""Weighs each column by the logarithm of its inverse document frequency
    and scales rows to unit length.
    """
    frequency = (x > 0).sum(dim=0)
    weighted = x * (torch.log((1 + x.size(0)) / (1 + frequency)) + 1)
    return weighted / weighted.norm(dim=1, keepdim=True).clamp(min=1e-12)


def cluster_means(x: Tensor, cluster: Tensor, num_clusters: int) -> Tensor:
    r"""The mean feature vector of the members of each cluster, summed in
    double precision.

    Args:
        x (torch.Tensor): The features, ``[N, F]``.
        cluster (torch.Tensor): The cluster of each row, ``[N]``.
        num_clusters (int): The number of clusters, none of them empty.
    """
    total = torch.zeros(num_clusters, x.size(1), dtype=torch.float64)
    total.index_add_(0, cluster, x.double())
    size = torch.bincount(cluster, minlength=num_clusters)
    return (total / size[:, None]).to(x.dtype)
