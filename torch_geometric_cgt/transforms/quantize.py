r"""Quantization: feature vectors become the means of clusters with at least k members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.data import MASKS, split_of
from torch_geometric_cgt.data.graph_checks import check_features
from torch_geometric_cgt.errors import AnonymityError, SourceError
from torch_geometric_cgt.privacy import Budget, Entry
from torch_geometric_cgt.quantizer import (
    ConstrainedKMeans,
    FlowKMeans,
    PrivateKMeans,
    cluster_means,
    label_homogeneity,
    reduce_features,
)
from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer, verify_sizes
from torch_geometric_cgt.quantizer.feature_space import (
    center_and_scale,
    is_bag_of_words,
    out_of_fold_probabilities,
    task_space,
    tf_idf,
)
from torch_geometric_cgt.transforms.task_weight import (
    TrialClusterings,
    calibrate_task_weight,
    sharing,
)
from torch_geometric_cgt.utils.checks import check_integer, check_memory
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import block_of, proximity_order
from torch_geometric_cgt.utils.scratch import Scratch
from torch_geometric_cgt.utils.warn import warn_user

METHODS = ('kmeans', 'exact', 'dp')


@dataclass(frozen=True)
class Clustering:
    r"""The result of :meth:`Quantize.cluster`."""

    cluster: Tensor  # [N] the cluster of each node
    codebook: Tensor  # [m, F] the mean feature vector of each cluster
    task_weight: float  # the weight of class probabilities, 0 if they were not used
    entries: tuple[Entry, ...] = ()  # the privacy cost of method='dp', for a ledger


@functional_transform('quantize')
class Quantize(BaseTransform):
    r"""Replaces each feature vector by the mean of its cluster, where every
    cluster holds at least :math:`k` of all nodes
    (functional name: :obj:`quantize`).

    Adds :obj:`data.cluster` (the cluster of each node, ``[N]``) and
    :obj:`data.codebook` (the cluster means, ``[m, F]``); :obj:`data.x` becomes
    :obj:`codebook[cluster]`. The minimum size is verified on every call.

    With :obj:`method="dp"`, the codebook is differentially private instead, for
    one node (its features and its label), and clusters have no minimum size,
    see :class:`~torch_geometric_cgt.quantizer.PrivateKMeans`. The codebook may
    be released. The cluster of a node and :obj:`data.x` may **not**, since they
    depend on the node's own features: only a private model may learn from
    them. Noise comes from the operating system, so that each call gives another
    codebook, whatever the seed.

    Args:
        k (int, optional): The minimum number of nodes per cluster, not for
            :obj:`method="dp"`. (default: :obj:`30`)
        num_clusters (int, optional): The number of clusters :math:`m`, at
            most :math:`N / k`. By default, as many as :math:`k` allows, which
            keeps the most accuracy. (default: :obj:`None`)
        method (str, optional): :obj:`"kmeans"` scales to millions of nodes,
            :obj:`"exact"` solves each step over all pairs of nodes and
            clusters, for up to about 10,000 nodes, :obj:`"dp"` is
            differentially private. (default: :obj:`"kmeans"`)
        epsilon (float, optional): The budget of a differentially private
            method. (default: :obj:`None`)
        delta (float, optional): The failure probability of a differentially
            private method. By default, :math:`N^{-1.1}`.
            (default: :obj:`None`)
        seed (int, optional): The seed of the clustering. (default: :obj:`0`)
        l (int, optional): The minimum number of distinct labels per cluster.
            There may then be fewer than :obj:`num_clusters` clusters. Without
            it, a warning tells how many clusters hold one label only.
            (default: :obj:`None`)
        task_weight (float or str, optional): The weight of class
            probabilities, which are clustered together with the features.
            Clusters become more homogeneous in their labels. With
            :obj:`"auto"`, it is the weight at which a linear probe on the
            quantized graph is as accurate as on the original one. The probe
            learns from :obj:`data.train_mask`, if there is one, and is tested
            on all other nodes, so that the effect of a biased training set is
            kept. :class:`~torch_geometric_cgt.SyntheticCGTDataset` uses
            :obj:`"auto"`. (default: :obj:`None`)
        num_components (int, optional): The number of principal components of
            the features that are clustered. (default: :obj:`64`)
        device (str or torch.device, optional): The device on which distances
            are computed. (default: :obj:`"cpu"`)
        dp_args (dict, optional): Further arguments of
            :class:`~torch_geometric_cgt.quantizer.PrivateKMeans`. By default,
            :obj:`per_label=True` if nodes have labels. (default: :obj:`None`)
    """

    def __init__(
        self,
        k: int = 30,
        num_clusters: int | None = None,
        method: str = 'kmeans',
        epsilon: float | None = None,
        delta: float | None = None,
        seed: int = 0,
        l: int | None = None,  # noqa: E741  the name it has in the literature
        task_weight: float | str | None = None,
        num_components: int = 64,
        device: str | torch.device = 'cpu',
        dp_args: dict[str, Any] | None = None,
    ) -> None:
        for name, value in (('num_clusters', num_clusters), ('l', l)):
            if value is not None:
                check_integer(name, value)
        check_integer('k', k)
        check_integer('num_components', num_components)
        if task_weight != 'auto' and not (task_weight is None or _is_weight(task_weight)):
            raise ValueError(
                f"'task_weight' must be None, 'auto' or a number >= 0 (got {task_weight!r})"
            )
        if method not in METHODS:
            raise ValueError(
                f"'method' must be one of {', '.join(map(repr, METHODS))} (got {method!r})"
            )
        if method == 'dp':
            _check_private(epsilon, delta, l, task_weight, dp_args)
        elif epsilon is not None or delta is not None or dp_args is not None:
            raise ValueError(
                f"'epsilon', 'delta' and 'dp_args' are for method='dp' (got method={method!r}, "
                f'epsilon={epsilon}, delta={delta}, dp_args={dp_args})'
            )
        self.k = k
        self.num_clusters = num_clusters
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.seed = seed
        self.l = l
        self.task_weight = task_weight
        self.num_components = num_components
        self.device = device
        self.dp_args = dp_args

    def forward(self, data: Data) -> Data:
        out = self.cluster(data)
        num_nodes, num_features = data.x.shape
        check_memory(
            num_nodes * num_features * out.codebook.element_size(),
            f'a quantized copy of {num_nodes} x {num_features} features',
            "use 'Quantize.cluster(data)', which gives clusters and codebook only",
            data.x.device,
        )
        data.codebook = out.codebook.to(data.x.device)
        data.cluster = out.cluster.to(data.x.device)
        data.x = data.codebook[data.cluster]
        return data

    def cluster(
        self,
        data: Data,
        callback: Callable[[int, int], None] | None = None,
        world: World | None = None,
        scratch: Scratch | None = None,
    ) -> Clustering:
        r"""Finds clusters and codebook without a quantized copy of the features.

        Several processes share the work. Beyond 50,000 nodes, each of them holds a
        share of the rows, and the result depends on their number.

        Args:
            data (Data): The graph; :obj:`x` may be sparse. Dense features
                may be memory-mapped: a process reads its share of them only.
            callback (callable, optional): Called as :obj:`callback(step,
                total)` during each clustering. There are several with
                :obj:`task_weight="auto"`. (default: :obj:`None`)
            world (World, optional): The processes, all of which must call this
                method. (default: :obj:`None`)
            scratch (Scratch, optional): Where to keep large tables while they are
                needed. (default: in memory)
        """
        world = world or World()
        rows = sharing(world, data.num_nodes) if self.method == 'kmeans' else World()
        x = block_of(check_features(data), rows.share(data.num_nodes))
        y = self._labels(data)
        if self.method == 'dp':
            return world.by_first(lambda: self._cluster_privately(x, y))
        num_clusters = self.num_clusters_for(data.num_nodes)
        words = tf_idf(x, rows) if is_bag_of_words(x, rows) else x
        z = reduce_features(words, self.num_components, self.seed, rows, scratch)
        del words

        weight, space = 0.0, z
        if y is not None and self.task_weight not in (None, 0):
            probabilities = out_of_fold_probabilities(z, y, 5, self.seed, rows, scratch)
            moments = center_and_scale(z, rows)
            weight = self._weight(data, x, y, z, probabilities, moments, callback, world, rows)
            space = task_space(z, probabilities, weight, moments, scratch)
            del z, probabilities

        def solve(y: Tensor | None) -> tuple[Tensor, Tensor]:
            solver = self._solver(num_clusters, callback, rows).fit(space, y)
            return torch.from_numpy(solver.labels_), torch.from_numpy(solver.cluster_centers_)

        if rows.size > 1:
            labels, centers = solve(None if y is None else y[rows.share(data.num_nodes)])
        else:
            labels, centers = world.by_first(lambda: solve(y))
        num_clusters = centers.size(0)
        # Generators with a large vocabulary treat clusters with close numbers as similar.
        order = world.by_first(lambda: proximity_order(centers))
        labels = order.argsort()[labels]
        codebook = cluster_means(x, labels, num_clusters, rows)
        cluster = rows.concatenate(labels)
        verify_sizes(cluster, num_clusters, self.k)
        self._check_diversity(cluster, y, world.is_first)
        return Clustering(cluster, codebook, weight)

    def _weight(
        self,
        data: Data,
        x: Tensor,
        y: Tensor,
        z: Tensor,
        probabilities: np.ndarray,
        moments: tuple[Tensor, Tensor],
        callback: Callable[[int, int], None] | None,
        world: World,
        rows: World,
    ) -> float:
        r"""The task weight that was given, or the one that keeps the accuracy of all views."""
        if self.task_weight != 'auto':
            return float(self.task_weight or 0.0)
        trials = TrialClusterings(
            z,
            probabilities,
            moments,
            y,
            self.num_clusters_for(y.numel()),
            lambda num_clusters: self._solver(num_clusters, callback),
            self.seed,
            rows,
        )
        return calibrate_task_weight(
            x,
            data.edge_index,
            y,
            trials.find,
            self.seed,
            _split_codes(data),
            world,
            rows,
            trials.assign if rows.size > 1 else None,
        )

    def private_solver(self, y: Tensor | None) -> PrivateKMeans:
        r"""Returns the quantizer of :obj:`method="dp"`. Its :meth:`plan` has the entries
        for a ledger.
        """
        arguments = {
            'n_clusters': self.num_clusters,
            'per_label': y is not None,
            'random_state': self.seed,
            **(self.dp_args or {}),
        }
        return PrivateKMeans(self.epsilon, self.delta, **arguments)

    def _cluster_privately(self, x: Tensor, y: Tensor | None) -> Clustering:
        solver = self.private_solver(y).fit(x, y)
        centers = torch.from_numpy(solver.cluster_centers_)
        order = proximity_order(centers)
        cluster = order.argsort()[torch.from_numpy(solver.labels_)]
        return Clustering(cluster, centers[order].to(x.dtype), 0.0, tuple(solver.entries_))

    def num_clusters_for(self, num_nodes: int) -> int:
        r"""Returns the number of clusters for a graph of this size, and raises an error if
        clusters of :obj:`k` nodes are impossible.
        """
        if self.k > num_nodes:
            raise ValueError(
                f"'k' must not exceed the number of nodes (got k={self.k} for {num_nodes} nodes): "
                f'use k <= {num_nodes // 2}, so that there are two groups or more'
            )
        num_clusters = self.num_clusters or num_nodes // self.k
        if num_clusters * self.k > num_nodes:
            raise ValueError(
                f"'num_clusters' * 'k' must not exceed the number of nodes "
                f'(got {num_clusters} * {self.k} > {num_nodes}): use at most '
                f'{num_nodes // self.k} clusters'
            )
        return num_clusters

    def _solver(
        self,
        num_clusters: int,
        callback: Callable[[int, int], None] | None = None,
        rows: World | None = None,
    ) -> KAnonymousQuantizer:
        if self.method == 'exact':
            return ConstrainedKMeans(
                num_clusters, self.k, min_labels=self.l, random_state=self.seed
            )
        return FlowKMeans(
            num_clusters,
            self.k,
            min_labels=self.l,
            random_state=self.seed,
            device=str(self.device),
            callback=callback,
            world=rows,
        )

    def _labels(self, data: Data) -> Tensor | None:
        y = data.y
        usable = y is not None and y.dim() == 1 and not y.is_floating_point()
        if usable and bool((y >= 0).any()):
            return y.cpu().long().clamp(min=-1)
        for name in ('l', 'task_weight'):
            if getattr(self, name) not in (None, 0):
                raise SourceError(f"'{name}' needs integer labels 'y' (got none)")
        return None

    def _check_diversity(self, cluster: Tensor, y: Tensor | None, warn: bool) -> None:
        if y is None:
            return
        found = label_homogeneity(cluster, y)
        if self.l is not None and int(found.distinct.min()) < self.l:
            raise AnonymityError(
                f'{int((found.distinct < self.l).sum())} clusters have fewer than '
                f'{self.l} distinct labels'
            )
        if warn and self.l is None and found.num_homogeneous > 0:
            warn_user(
                f'{found.num_homogeneous} of {len(found.distinct)} clusters hold nodes of one '
                f'label only: whoever knows that a node is in such a cluster knows its label. '
                f"'KAnonymity(..., l=2)', or '--l 2' on the command line, prevents this",
            )

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(k={self.k}, num_clusters={self.num_clusters}, '
            f"method='{self.method}', epsilon={self.epsilon}, delta={self.delta}, "
            f'seed={self.seed}, l={self.l}, task_weight={self.task_weight!r}, '
            f'num_components={self.num_components}, dp_args={self.dp_args})'
        )


def _split_codes(data: Data) -> Tensor | None:
    r"""Returns the split code of each node, or :obj:`None` if the graph does not have exactly one
    split.
    """
    masks = [data[name] for name in MASKS if name in data]
    if 'train_mask' not in data or any(mask.shape != (data.num_nodes,) for mask in masks):
        return None
    return split_of(data)


def _check_private(
    epsilon: float | None,
    delta: float | None,
    l: int | None,  # noqa: E741
    task_weight: float | str | None,
    dp_args: dict[str, Any] | None,
) -> None:
    r"""Raises an error for arguments that :obj:`method="dp"` does not support."""
    if epsilon is None:
        raise ValueError("method='dp' needs a budget (got epsilon=None)")
    Budget(epsilon, 0.5 if delta is None else delta)
    for name, value in (('l', l), ('task_weight', task_weight)):
        if value not in (None, 0):
            raise ValueError(f"'{name}' is not for method='dp' (got {value!r})")
    try:
        PrivateKMeans(epsilon, delta, **(dp_args or {}))
    except TypeError as error:
        raise ValueError(f"Unknown argument in 'dp_args': {error}") from error


def _is_weight(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6
