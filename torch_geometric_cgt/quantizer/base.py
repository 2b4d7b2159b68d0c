r"""The base classes of quantizers, which are scikit-learn estimators."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from torch_geometric_cgt.errors import AnonymityError
from torch_geometric_cgt.quantizer.kmeans_steps import centers_and_sizes, inertia_of, nearest_center
from torch_geometric_cgt.quantizer.label_diversity import diversify
from torch_geometric_cgt.utils.checks import as_labels, as_matrix, check_positive
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import work_dtype


class Quantizer(ClusterMixin, BaseEstimator, ABC):
    r"""The base class of all quantizers: clusterings whose centres replace the rows.

    A quantizer is a scikit-learn estimator. Its constructor stores the arguments untouched, and
    :meth:`fit` checks them. :func:`sklearn.base.clone` gives an unfitted quantizer that shares
    the arguments of this one.

    Attributes:
        labels_ (numpy.ndarray): The cluster of each row, :obj:`int64`.
        cluster_centers_ (numpy.ndarray): The centres of the clusters.
        n_features_in_ (int): The number of columns given to :meth:`fit`.
    """

    labels_: np.ndarray
    cluster_centers_: np.ndarray
    n_features_in_: int

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Quantizer:
        r"""Clusters the rows of :obj:`X`."""

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        r"""Clusters the rows of :obj:`X` and returns :obj:`labels_`."""
        return self.fit(X, y).labels_

    def predict(self, X: Any) -> np.ndarray:
        r"""Returns the nearest centre of each row of :obj:`X`, :obj:`int64`.

        Args:
            X (torch.Tensor or numpy.ndarray): The rows, dense or sparse (COO, CSR), in the space
                given to :meth:`fit`.
        """
        check_is_fitted(self)
        x = as_matrix(X).cpu()
        if x.size(1) != self.n_features_in_:
            raise ValueError(
                f"'X' must have {self.n_features_in_} columns, as many as in 'fit' "
                f'(got shape {list(x.shape)})'
            )
        return self._nearest_center(x).numpy()

    def _nearest_center(self, x: Tensor) -> Tensor:
        return nearest_center(x, torch.from_numpy(self.cluster_centers_))

    def __sklearn_clone__(self) -> Quantizer:
        # scikit-learn would copy the arguments. A copied generator repeats its noise, and a
        # callback need not be copyable.
        return type(self)(**self.get_params(deep=False))

    def __repr__(self) -> str:
        names = list(inspect.signature(type(self)).parameters)
        values = ', '.join(f'{name}={getattr(self, name)!r}' for name in names)
        return f'{self.__class__.__name__}({values})'


class KAnonymousQuantizer(Quantizer):
    r"""The base class of quantizers in which every cluster has at least :obj:`size_min` rows.

    A subclass stores its arguments untouched and implements :meth:`_cluster`.

    Attributes:
        labels_ (numpy.ndarray): The cluster of each row, :obj:`int64`.
        cluster_centers_ (numpy.ndarray): The means of the members, in the space given to
            :meth:`fit`.
        sizes_ (numpy.ndarray): The number of rows in each cluster.
        inertia_ (float): The sum of squared distances to the centres.
        inertia_path_ (list): The inertia at the start and after each step of the clustering. It
            never rises. The cost of :obj:`min_labels` shows in :obj:`inertia_` only.
        n_iter_ (int): The number of steps.
        n_features_in_ (int): The number of columns given to :meth:`fit`.
    """

    n_clusters: int
    size_min: int
    max_iter: int
    min_labels: int | None
    random_state: int
    world: World | None = None

    sizes_: np.ndarray
    inertia_: float
    inertia_path_: list[float]
    n_iter_: int

    def fit(self, X: Any, y: Any = None) -> KAnonymousQuantizer:
        r"""Clusters the rows of :obj:`X`.

        Args:
            X (torch.Tensor or numpy.ndarray): The dense rows, of shape
                :obj:`[num_rows, num_features]`. Reduce sparse rows first, see
                :meth:`~torch_geometric_cgt.quantizer.reduce_features`. With several processes,
                the rows of this process.
            y (torch.Tensor or numpy.ndarray, optional): The label of each row, -1 where it has
                none. Only used with :obj:`min_labels`. (default: :obj:`None`)
        """
        if isinstance(X, Tensor) and X.layout != torch.strided:
            raise ValueError(
                f"'X' must be dense (got layout '{X.layout}'): call 'reduce_features(x)' first"
            )
        world = self.world or World()
        if world.size > 1 and len(X) == 0:  # more processes than rows
            x = torch.as_tensor(X)
        else:
            x = as_matrix(X).cpu()  # A quantizer moves what it needs to its device.
        num_rows = sum(world.gather(x.size(0)))
        check_sizes(num_rows, self.n_clusters, self.size_min)
        check_positive('max_iter', self.max_iter)
        if not isinstance(self.random_state, (int, np.integer)) or self.random_state < 0:
            raise ValueError(
                f"'random_state' must be a non-negative integer (got {self.random_state!r})"
            )
        classes = None if y is None else as_labels(y, x.size(0))
        if classes is not None and self.min_labels is not None and world.size > 1:
            return self._fit_in_first(x, classes, world)
        check_diversity(classes, self.min_labels)

        labels, path, num_iter = self._cluster(x)
        num_clusters = self.n_clusters
        if self.min_labels is not None and classes is not None:
            labels, num_clusters = diversify(
                x, labels, classes, num_clusters, self.size_min, self.min_labels
            )

        centers, sizes = centers_and_sizes(x, labels, num_clusters, world)
        check_counts(sizes, num_rows, self.size_min)
        self.labels_ = labels.numpy()
        self.cluster_centers_ = centers.to(work_dtype(x.dtype)).numpy()
        self.sizes_ = sizes.numpy()
        self.inertia_ = sum(world.gather(inertia_of(x, labels, centers)))
        self.inertia_path_ = path
        self.n_iter_ = num_iter
        self.n_features_in_ = x.size(1)
        return self

    def _fit_in_first(self, x: Tensor, y: Tensor, world: World) -> KAnonymousQuantizer:
        r"""Lets the first process cluster the rows of all processes. Rows are exchanged between
        any two clusters for :obj:`min_labels`, which processes cannot do side by side.
        """
        everything = [x.size(0)] + [0] * (world.size - 1)
        rows, counts = world.exchange(x, everything)
        labels, _ = world.exchange(y, everything)

        def fit_alone() -> dict[str, Any]:
            alone = type(self)(**{**self.get_params(deep=False), 'world': None})
            found = vars(alone.fit(rows, labels))
            return {name: value for name, value in found.items() if name.endswith('_')}

        for name, value in world.by_first(fit_alone).items():
            setattr(self, name, value)
        counts = world.first(counts)
        first = sum(counts[: world.rank])
        self.labels_ = self.labels_[first : first + x.size(0)]
        return self

    def predict(self, X: Any) -> np.ndarray:
        r"""Returns the nearest centre of each row of :obj:`X`, :obj:`int64`.

        .. warning::
            This is for rows that were not in :meth:`fit`. Clusters of nearest centres may be
            smaller than :obj:`size_min`: to reassign the rows given to :meth:`fit` would break
            :math:`k`-anonymity. Their clusters are in :obj:`labels_`.

        Args:
            X (torch.Tensor or numpy.ndarray): The rows, dense or sparse (COO, CSR), in the space
                given to :meth:`fit`.
        """
        return super().predict(X)

    @abstractmethod
    def _cluster(self, x: Tensor) -> tuple[Tensor, list[float], int]:
        r"""Returns the labels, the inertia at the start and after each step, and the number of
        steps.
        """


def check_sizes(num_rows: int, n_clusters: int, size_min: int) -> None:
    r"""Checks that :obj:`n_clusters` clusters of :obj:`size_min` rows can exist."""
    for name, value in (('n_clusters', n_clusters), ('size_min', size_min)):
        check_positive(name, value)
    if size_min > num_rows:
        raise ValueError(
            f"'size_min' must not exceed the number of rows, {num_rows} "
            f"(got {size_min}): lower 'size_min'"
        )
    if n_clusters * size_min > num_rows:
        raise ValueError(
            f"'n_clusters' * 'size_min' must not exceed the number of rows, "
            f'{num_rows} (got {n_clusters} * {size_min} = {n_clusters * size_min}): '
            f"use at most {num_rows // size_min} clusters or a smaller 'size_min'"
        )


def check_counts(sizes: Tensor, num_rows: int, size_min: int) -> None:
    r"""Checks the sizes of all clusters, counted over the rows of all processes."""
    if int(sizes.sum()) != num_rows or int(sizes.min()) < size_min:
        raise AnonymityError(
            f'{int((sizes < size_min).sum())} of {sizes.numel()} clusters have fewer than '
            f'{size_min} members (the smallest has {int(sizes.min())}), or not all of {num_rows} '
            f'rows have a cluster ({int(sizes.sum())} have one)'
        )


def check_diversity(y: Tensor | None, min_labels: int | None) -> None:
    r"""Checks that every cluster could hold :obj:`min_labels` distinct labels of :obj:`y`."""
    if min_labels is None:
        return
    check_positive('min_labels', min_labels)
    if y is None:
        raise ValueError(
            f"'min_labels' needs labels (got min_labels={min_labels} and y=None): call 'fit(X, y)'"
        )
    distinct = int(y[y >= 0].unique().numel())
    if distinct < min_labels:
        raise ValueError(
            f"'min_labels' must not exceed the number of distinct labels in 'y', "
            f"{distinct} (got {min_labels}): lower 'min_labels'"
        )


def verify_sizes(cluster: Tensor, num_clusters: int, k: int) -> None:
    r"""Raises an error if a cluster has fewer than :math:`k` members."""
    sizes = torch.bincount(cluster, minlength=num_clusters)
    if sizes.numel() != num_clusters or int(sizes.min()) < k:
        raise AnonymityError(
            f'{int((sizes < k).sum())} of {sizes.numel()} clusters have fewer than {k} '
            f'members (the smallest has {int(sizes.min())})'
        )
