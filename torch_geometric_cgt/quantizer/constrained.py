r"""Exact k-means with a minimum cluster size, for small graphs."""

from __future__ import annotations

import numpy as np
from k_means_constrained import KMeansConstrained


class ConstrainedKMeans:
    r"""K-means whose assignment step is a min-cost flow, so that no cluster
    falls below its minimum size.

    The labels are those of the flow. A row is never moved to its nearest
    centre afterwards: that would break the minimum.

    Args:
        n_clusters (int): The number of clusters.
        size_min (int): The minimum number of rows per cluster.
        max_iter (int, optional): The largest number of Lloyd steps.
            (default: :obj:`50`)
        random_state (int, optional): The seed. (default: :obj:`0`)
    """

    labels_: np.ndarray
    cluster_centers_: np.ndarray
    inertia_: float
    sizes_: np.ndarray

    def __init__(
        self, n_clusters: int, size_min: int, max_iter: int = 50, random_state: int = 0
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: object = None) -> ConstrainedKMeans:
        r"""Clusters the rows of :obj:`X`; :obj:`y` is ignored."""
        solver = KMeansConstrained(
            n_clusters=self.n_clusters,
            size_min=self.size_min,
            n_init=1,
            max_iter=self.max_iter,
            random_state=self.random_state,
        ).fit(X)
        self.labels_ = np.asarray(solver.labels_, dtype=np.int64)
        self.sizes_ = np.bincount(self.labels_, minlength=self.n_clusters)
        sums = np.zeros((self.n_clusters, X.shape[1]))
        np.add.at(sums, self.labels_, X)
        self.cluster_centers_ = sums / np.maximum(self.sizes_, 1)[:, None]
        self.inertia_ = float(((X - self.cluster_centers_[self.labels_]) ** 2).sum())
        return self
