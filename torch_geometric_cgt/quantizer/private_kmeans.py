r"""Differentially private k-means: centres from prefix trees, noisy counts and noisy sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.privacy.accounting import Budget
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.privacy.queries import Queries
from torch_geometric_cgt.quantizer.base import Quantizer
from torch_geometric_cgt.quantizer.feature_space import multiply_rows, random_projection, unit_rows
from torch_geometric_cgt.quantizer.private_centers import (
    PrivateCenters,
    centers_per_label,
    centers_without_labels,
    shrink_means,
)
from torch_geometric_cgt.quantizer.private_kmeans_plan import (
    MEDIAN_STEPS,
    STAGES,
    PrivateKMeansPlan,
    check_entries,
    plan_clustering,
)
from torch_geometric_cgt.utils.checks import as_labels, as_matrix, check_positive
from torch_geometric_cgt.utils.rows import row_norms

SPACES = ('features', 'projected')
LOG_NORMS = (-32.0, 32.0)  # The range in which log2 of the median length is searched.


class PrivateKMeans(Quantizer):
    r"""K-means with differentially private centres, where each row is one node.

    Each row is divided by its length, which depends on this row only. Rows are
    hashed by the signs of random projections, which agree for most rows that
    are close to each other. A prefix tree of the hashes is grown by noisy
    counts. Ordinary k-means on the noisy means of its leaves gives the first
    clusters. A few Lloyd steps with noisy sums and counts of the rows give the
    centres, which are the codebook. Each row is assigned to its nearest
    centre.

    With :obj:`per_label=True`, each label has its own prefix tree, whose leaves
    are the clusters. These are few, and large compared with the noise. Rows
    are still assigned to the nearest centre of any label. This is better
    wherever there are labels, and much better on small graphs.

    The centres are **private** (:obj:`cluster_centers_`, :obj:`scale_` and
    :obj:`counts_`). The clusters of the rows (:obj:`labels_`) are **not**: they
    may only be used inside another private mechanism. The numbers of rows,
    features and labels are assumed to be public.

    :func:`sklearn.base.clone` gives a quantizer that shares the
    :obj:`generator`, so that no noise is drawn twice.

    Args:
        epsilon (float, optional): The budget, which also decides on the number
            of clusters. (default: :obj:`None`)
        delta (float, optional): The failure probability. By default,
            :math:`n^{-1.1}`. (default: :obj:`None`)
        n_clusters (int, optional): The largest number of clusters. By default,
            what the budget allows. (default: :obj:`None`)
        per_label (bool, optional): Whether each label has its own clusters.
            (default: :obj:`False`)
        space (str, optional): The space of the centres: :obj:`"features"`, or
            :obj:`"projected"` for that of a public random projection.
            (default: :obj:`"features"`)
        n_components (int, optional): The number of dimensions of the
            projection. By default, 128 for :obj:`space="projected"`, and 24 for
            the projection that finds the first clusters.
            (default: :obj:`None`)
        num_steps (int, optional): The number of Lloyd steps, without
            :obj:`per_label`. (default: :obj:`3`)
        nonnegative (bool, optional): Whether features are known not to be
            negative, as word counts are. (default: :obj:`False`)
        accept_large_delta (bool, optional): Whether to accept a :obj:`delta`
            above :math:`1 / n`. (default: :obj:`False`)
        unit (str, optional): The unit of the budget: a :obj:`"node"` is
            removed, or its :obj:`"attributes"` are replaced.
            (default: :obj:`"node"`)
        random_state (int, optional): The seed of the projection and of the
            hashes, which is public. (default: :obj:`0`)
        generator (torch.Generator, optional): The source of the noise. By
            default, the operating system. Whoever knows the seed of a
            generator can remove the noise. (default: :obj:`None`)

    Attributes:
        cluster_centers_ (numpy.ndarray): The codebook, private.
        counts_ (numpy.ndarray): The noisy number of rows of each cluster when
            its centre was computed, private.
        scale_ (float): An estimate of the median length of a row, private.
        entries_ (list[Entry]): The privacy cost, for a ledger.
        noisy_sums_ (dict): The noisy sums of rows that the centres were
            computed from, :obj:`"sums"`, and their labels, :obj:`"sum_label"`,
            private; and the sum that each row is in, :obj:`"sum_index"`, not
            private.
        projection_ (numpy.ndarray): The public projection, with
            :obj:`space="projected"`.
        labels_ (numpy.ndarray): The cluster of each row, not private.
        n_features_in_ (int): The number of columns given to :meth:`fit`.
    """

    _centers: PrivateCenters

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        n_clusters: int | None = None,
        per_label: bool = False,
        space: str = 'features',
        n_components: int | None = None,
        num_steps: int = 3,
        nonnegative: bool = False,
        accept_large_delta: bool = False,
        unit: str = 'node',
        random_state: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_clusters = n_clusters
        self.per_label = per_label
        self.space = space
        self.n_components = n_components
        self.num_steps = num_steps
        self.nonnegative = nonnegative
        self.accept_large_delta = accept_large_delta
        self.unit = unit
        self.random_state = random_state
        self.generator = generator

    def plan(self, num_rows: int, num_labels: int | None = None) -> PrivateKMeansPlan:
        r"""Returns the plan of the clustering, from the budget and public numbers.

        Its :meth:`entries` go into a ledger that is calibrated as a whole.

        Args:
            num_rows (int): The number of rows.
            num_labels (int, optional): The number of labels, needed with
                :obj:`per_label=True`. (default: :obj:`None`)
        """
        for name in ('n_clusters', 'n_components', 'num_steps'):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.space not in SPACES:
            raise ValueError(
                f"'space' must be one of {', '.join(map(repr, SPACES))} (got {self.space!r})"
            )
        if self.epsilon is None:
            raise ValueError("'epsilon' must be given: the number of clusters depends on it")
        if self.per_label and num_labels is None:
            raise ValueError("'per_label=True' needs labels (got y=None): call 'fit(X, y)'")
        num_labels = num_labels if self.per_label else None
        budget = self._budget(num_rows)
        return plan_clustering(budget, num_rows, num_labels, self.n_clusters, self.num_steps)

    def _budget(self, num_rows: int) -> Budget:
        return Budget.of(
            self.epsilon or 0.0, self.delta, num_rows, self.unit, self.accept_large_delta
        )

    def fit(
        self,
        X: Any,
        y: Any = None,
        queries: Queries | None = None,
        num_labels: int | None = None,
    ) -> PrivateKMeans:
        r"""Clusters the rows of :obj:`X`.

        Args:
            X (torch.Tensor or numpy.ndarray): The rows, dense or sparse,
                ``[n, F]``.
            y (torch.Tensor or numpy.ndarray, optional): The label of each row,
                -1 where it has none. (default: :obj:`None`)
            queries (Queries, optional): Answers with the noise of a calibrated
                ledger, which must hold the entries of :meth:`plan`. By default,
                the whole budget is spent on this clustering.
                (default: :obj:`None`)
            num_labels (int, optional): The number of labels, if it is known
                independently of the data. By default, one more than the
                largest label. (default: :obj:`None`)
        """
        x = as_matrix(X).cpu()
        classes = None if y is None else as_labels(y, x.size(0))
        if classes is not None:
            found = max(1, int(classes.max()) + 1)
            if num_labels is not None and num_labels < found:
                raise ValueError(
                    f"'num_labels' must be larger than the largest label, {found - 1} "
                    f'(got {num_labels})'
                )
            num_labels = num_labels or found
        plan = self.plan(x.size(0), num_labels)
        if queries is None:
            ledger = Ledger(STAGES, plan.entries()).calibrate(self._budget(x.size(0)))
            queries = Queries(ledger.entries, self.generator)
        check_entries(plan, queries.entries)
        self.entries_ = list(queries.entries)

        norms = row_norms(x).clamp(min=1e-30).log2()
        self.scale_ = 2 ** queries.median('median length', norms, *LOG_NORMS, MEDIAN_STEPS)
        rows = self._rows(x)
        if self.space == 'projected':
            self.projection_ = self._projection(x.size(1)).numpy()
        if plan.per_label and classes is not None:
            centers = centers_per_label(rows, classes, plan, self.random_state, queries)
        else:
            projection = self._projection(x.size(1)) if self.space == 'features' else None
            centers = centers_without_labels(rows, projection, plan, self.random_state, queries)
        nonnegative = self.nonnegative and self.space == 'features'
        means = shrink_means(centers.means, centers.noise, nonnegative)
        self._centers = centers
        self.cluster_centers_ = (self.scale_ * means).numpy()
        self.noisy_sums_ = centers.sums()
        self.counts_ = centers.count.numpy()
        self.labels_ = centers.nearest(rows).numpy()
        self.n_features_in_ = x.size(1)
        return self

    def predict(self, X: Any) -> np.ndarray:
        r"""Returns the nearest centre of each row of :obj:`X`, :obj:`int64`.

        Distances are corrected for the noise of the centres. The rows given to
        :meth:`fit` are assigned by the same rule, so that the result for them
        is :obj:`labels_`. The result depends on a row itself and on private
        centres only, and is **not** private.

        Args:
            X (torch.Tensor or numpy.ndarray): The rows, dense or sparse (COO,
                CSR), in the space given to :meth:`fit`.
        """
        return super().predict(X)

    def _nearest_center(self, x: Tensor) -> Tensor:
        return self._centers.nearest(self._rows(x))

    def transform(self, X: Any) -> np.ndarray:
        r"""Returns the rows as they were clustered, times :obj:`scale_`. The
        centres are private means of these rows, not of the original ones.

        Args:
            X (torch.Tensor or numpy.ndarray): The rows, dense or sparse.
        """
        rows = self._rows(as_matrix(X).cpu())
        dense = rows if rows.layout == torch.strided else rows.to_dense()
        return (self.scale_ * dense).numpy()

    def _rows(self, x: Tensor) -> Tensor:
        r"""Returns rows of length one, in the space of the centres."""
        rows = unit_rows(x)
        if self.space == 'features':
            return rows
        return unit_rows(multiply_rows(rows, self._projection(x.size(1))))

    def _projection(self, num_features: int) -> Tensor:
        size = self.n_components or (128 if self.space == 'projected' else 24)
        return random_projection(num_features, size, self.random_state)
