r"""Differentially private k-means: clusters from a prefix tree with noisy counts and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.privacy.budget import Budget
from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.privacy.mechanisms import noisy_median, row_norms
from torch_geometric_cgt.quantizer.private_centers import centers_per_label, centers_without_labels
from torch_geometric_cgt.quantizer.private_plan import (
    MEDIAN_STEPS,
    STAGES,
    Plan,
    check_entries,
    noise_of,
    plan_clustering,
)
from torch_geometric_cgt.quantizer.projection import multiply_rows, random_projection, unit_rows
from torch_geometric_cgt.quantizer.shrink import shrink_means
from torch_geometric_cgt.quantizer.validate import as_labels, as_matrix, check_positive

SPACES = ('features', 'projected')
LOG_NORMS = (-32.0, 32.0)  # where the logarithm (base 2) of the median length is sought


class PrivateKMeans:
    r"""Clusters whose centres are differentially private, for one row per node.

    Each row is divided by its length, which needs no other row. Hashes (signs
    of random projections) are the same for rows that are close to each other;
    a prefix tree of them is grown by noisy counts. Its leaves give noisy
    means, ordinary k-means on these gives the first centres, and a few steps of
    Lloyd with noisy sums and counts of the rows give centres in the space of
    the features, the codebook. A row belongs to the centre that is nearest to
    it, which takes the row itself and private centres only.

    With :obj:`per_label=True`, each label has a tree of its own, whose leaves are
    the clusters: few, and large enough for their noise. Rows still go to the
    nearest centre, whatever their label. This is better wherever there are
    labels, and much better on small graphs.

    **Private** are the centres (:obj:`cluster_centers_`, :obj:`scale_`,
    :obj:`counts_`). The clusters of the rows (:obj:`labels_`) are **not**: they
    may only be used inside of another private mechanism. The numbers of rows,
    features and labels are taken to be known.

    Args:
        epsilon (float, optional): The budget, unless :meth:`fit` is given
            entries with noise. (default: :obj:`None`)
        delta (float, optional): The failure probability. By default,
            :math:`n^{-1.1}`. (default: :obj:`None`)
        n_clusters (int, optional): The largest number of clusters. By default,
            what the budget allows. (default: :obj:`None`)
        per_label (bool, optional): Whether each label has clusters of its own.
            (default: :obj:`False`)
        space (str, optional): The space of the centres: :obj:`"features"`, or
            :obj:`"projected"` for that of a public random projection.
            (default: :obj:`"features"`)
        n_components (int, optional): The number of dimensions of the
            projection. By default, 24 to find clusters in, 128 to release.
            (default: :obj:`None`)
        num_steps (int, optional): The number of steps of Lloyd, without
            labels. (default: :obj:`3`)
        nonnegative (bool, optional): Whether features are known not to be
            negative, as counts of words are. (default: :obj:`False`)
        accept_large_delta (bool, optional): Whether a delta above :math:`1 / n`
            is meant. (default: :obj:`False`)
        random_state (int, optional): The seed of projection and hashes, which
            is no secret. (default: :obj:`0`)
        generator (torch.Generator, optional): The source of the noise. By
            default, the operating system. With a generator, whoever knows its
            seed can take the noise away again. (default: :obj:`None`)

    Attributes:
        cluster_centers_ (numpy.ndarray): The codebook, private.
        counts_ (numpy.ndarray): The noisy number of rows of each cluster when
            its centre was computed, private.
        scale_ (float): About the median length of a row, private.
        entries_ (list[Entry]): What it cost, for a ledger.
        seen_ (dict): What the centres were made of: noisy sums of rows,
            :obj:`"sums"`, with their :obj:`"sum_label"`, private; and
            :obj:`"sum_index"`, the sum that each row is in, not private.
        projection_ (numpy.ndarray): The public projection, where there is one.
        labels_ (numpy.ndarray): The cluster of each row, not private.
    """

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
        self.random_state = random_state
        self.generator = generator

    def plan(self, num_rows: int, num_labels: int | None = None) -> Plan:
        r"""The shape of the clustering, from the budget and public numbers; its
        :meth:`entries` go into a ledger that is calibrated as a whole.

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
        budget = Budget.of(self.epsilon, self.delta, num_rows, 'node', self.accept_large_delta)
        num_labels = num_labels if self.per_label else None
        return plan_clustering(budget, num_rows, num_labels, self.n_clusters, self.num_steps)

    def fit(
        self,
        X: Any,
        y: Any = None,
        entries: Sequence[Entry] | None = None,
        num_labels: int | None = None,
    ) -> PrivateKMeans:
        r"""Clusters the rows of :obj:`X`.

        Args:
            X (torch.Tensor or numpy.ndarray): The rows, dense or sparse,
                ``[n, F]``.
            y (torch.Tensor or numpy.ndarray, optional): The label of each row,
                -1 where it has none. (default: :obj:`None`)
            entries (list[Entry], optional): Those of :meth:`plan`, with the
                noise that a ledger found for them. By default, the budget is
                spent on this clustering alone. (default: :obj:`None`)
            num_labels (int, optional): The number of labels, where it is known
                without looking. By default, one more than the largest one.
                (default: :obj:`None`)
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
        if entries is None:
            budget = Budget.of(
                self.epsilon or 0.0, self.delta, x.size(0), 'node', self.accept_large_delta
            )
            entries = Ledger(STAGES, plan.entries()).calibrate(budget).entries
        check_entries(plan, entries)
        self.entries_ = list(entries)

        sigma = noise_of(entries, 'median length')
        norms = row_norms(x).clamp(min=1e-30).log2()
        self.scale_ = 2 ** noisy_median(norms, *LOG_NORMS, MEDIAN_STEPS, sigma, self.generator)
        rows = self._rows(x)
        if self.space == 'projected':
            self.projection_ = self._projection(x.size(1)).numpy()
        if plan.per_label and classes is not None:
            self._private = centers_per_label(
                rows, classes, plan, entries, self.random_state, self.generator
            )
        else:
            projection = self._projection(x.size(1)) if self.space == 'features' else None
            self._private = centers_without_labels(
                rows, projection, plan, entries, self.random_state, self.generator
            )
        centers, nonnegative = self._private, self.nonnegative and self.space == 'features'
        means = shrink_means(centers.means, centers.noise, nonnegative)
        self.cluster_centers_ = (self.scale_ * means).numpy()
        self.seen_ = centers.seen()
        self.counts_ = centers.count.numpy()
        self.labels_ = centers.nearest(rows).numpy()
        return self

    def predict(self, X: Any) -> np.ndarray:
        r"""The cluster of each row: a function of the row and of private centres."""
        return self._private.nearest(self._rows(as_matrix(X).cpu())).numpy()

    def transform(self, X: Any) -> np.ndarray:
        r"""The rows as clusters were sought among them, times :obj:`scale_`:
        centres are private means of these, and not of the rows as they were.
        """
        rows = self._rows(as_matrix(X).cpu())
        dense = rows if rows.layout == torch.strided else rows.to_dense()
        return (self.scale_ * dense).numpy()

    def _rows(self, x: Tensor) -> Tensor:
        r"""Rows of length one, in the space of the centres."""
        rows = unit_rows(x)
        if self.space == 'features':
            return rows
        return unit_rows(multiply_rows(rows, self._projection(x.size(1))))

    def _projection(self, num_features: int) -> Tensor:
        size = self.n_components or (128 if self.space == 'projected' else 24)
        return random_projection(num_features, size, self.random_state)

    def __repr__(self) -> str:
        values = ', '.join(
            f'{name}={value!r}'
            for name, value in vars(self).items()
            if not name.endswith('_') and not name.startswith('_') and name != 'generator'
        )
        return f'{self.__class__.__name__}({values})'
