r"""What every quantizer shares: checks before, diversity and attributes after."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.distance import centers_of, inertia_of
from torch_geometric_cgt.quantizer.diversity import diversify
from torch_geometric_cgt.quantizer.validate import (
    as_labels,
    as_matrix,
    check_diversity,
    check_positive,
    check_sizes,
)
from torch_geometric_cgt.utils.rows import work_dtype


class Quantizer(ABC):
    r"""The base class of clusterings in which every cluster has at least :obj:`size_min` rows.

    A subclass stores its arguments untouched and implements :meth:`_cluster`.

    Attributes:
        labels_ (numpy.ndarray): The cluster of each row, :obj:`int64`.
        cluster_centers_ (numpy.ndarray): The means of the members, in the space given to
            :meth:`fit`.
        sizes_ (numpy.ndarray): The number of rows in each cluster.
        inertia_ (float): The sum of squared distances to the centres.
        inertia_path_ (list): The inertia at the start and after each step of the clustering. It
            never rises. What :obj:`min_labels` costs afterwards shows in :obj:`inertia_` only.
        n_iter_ (int): The number of steps.
    """

    n_clusters: int
    size_min: int
    max_iter: int
    min_labels: int | None
    random_state: int

    labels_: np.ndarray
    cluster_centers_: np.ndarray
    sizes_: np.ndarray
    inertia_: float
    inertia_path_: list[float]
    n_iter_: int

    def fit(self, X: Any, y: Any = None) -> 'Quantizer':
        r"""Clusters the rows of :obj:`X`.

        Args:
            X (torch.Tensor or numpy.ndarray): The dense rows, of shape
                :obj:`[num_rows, num_features]`. Reduce sparse rows first, see
                :meth:`~torch_geometric_cgt.quantizer.reduce_features`.
            y (torch.Tensor or numpy.ndarray, optional): The label of each row, -1 where it has
                none. Only used with :obj:`min_labels`. (default: :obj:`None`)
        """
        if isinstance(X, Tensor) and X.layout != torch.strided:
            raise ValueError(
                f"'X' must be dense (got layout '{X.layout}'): call 'reduce_features(x)' first"
            )
        x = as_matrix(X).cpu()  # A quantizer moves what it needs to its device.
        check_sizes(x.size(0), self.n_clusters, self.size_min)
        check_positive('max_iter', self.max_iter)
        if not isinstance(self.random_state, (int, np.integer)) or self.random_state < 0:
            raise ValueError(
                f"'random_state' must be a non-negative integer (got {self.random_state!r})"
            )
        classes = None if y is None else as_labels(y, x.size(0))
        check_diversity(classes, self.min_labels)

        labels, path, num_iter = self._cluster(x)
        num_clusters = self.n_clusters
        if self.min_labels is not None and classes is not None:
            labels, num_clusters = diversify(
                x, labels, classes, num_clusters, self.size_min, self.min_labels
            )

        centers, sizes = centers_of(x, labels, num_clusters)
        self.labels_ = labels.numpy()
        self.cluster_centers_ = centers.to(work_dtype(x.dtype)).numpy()
        self.sizes_ = sizes.numpy()
        self.inertia_ = inertia_of(x, labels, centers)
        self.inertia_path_ = path
        self.n_iter_ = num_iter
        return self

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        r"""Clusters the rows of :obj:`X` and returns their clusters."""
        return self.fit(X, y).labels_

    @abstractmethod
    def _cluster(self, x: Tensor) -> tuple[Tensor, list[float], int]:
        r"""Returns labels, the inertia at the start and after each step, and the steps taken."""

    def __repr__(self) -> str:
        values = ', '.join(
            f'{name}={value!r}' for name, value in vars(self).items() if not name.endswith('_')
        )
        return f'{self.__class__.__name__}({values})'
