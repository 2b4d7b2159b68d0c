r"""Quantization: feature vectors become ids of clusters with at least k members."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.errors import AnonymityError, SourceError, UnsupportedError
from torch_geometric_cgt.quantizer import ConstrainedKMeans, cluster_means, reduce_features


@functional_transform('quantize')
class Quantize(BaseTransform):
    r"""Replaces each feature vector by the mean of its cluster, where every
    cluster holds at least :math:`k` of all nodes
    (functional name: :obj:`quantize`).

    Adds :obj:`data.cluster` (the cluster of each node, ``[N]``) and
    :obj:`data.codebook` (the cluster means, ``[m, F]``); :obj:`data.x` becomes
    :obj:`codebook[cluster]`. The minimum size is verified on every call.

    Args:
        k (int, optional): The minimum number of nodes per cluster.
            (default: :obj:`30`)
        num_clusters (int, optional): The number of clusters :math:`m`, at
            most :math:`N / k`. By default, as many as :math:`k` allows.
            (default: :obj:`None`)
        method (str, optional): The clustering method: :obj:`"kmeans"`.
            (default: :obj:`"kmeans"`)
        epsilon (float, optional): The budget of a differentially private
            method. (default: :obj:`None`)
        delta (float, optional): The failure probability of a differentially
            private method. (default: :obj:`None`)
        seed (int, optional): The seed of the clustering. (default: :obj:`0`)
        num_components (int, optional): Clusters are sought among this many
            principal components of the features. (default: :obj:`64`)
    """

    def __init__(
        self,
        k: int = 30,
        num_clusters: int | None = None,
        method: str = 'kmeans',
        epsilon: float | None = None,
        delta: float | None = None,
        seed: int = 0,
        num_components: int = 64,
    ) -> None:
        if k < 1:
            raise ValueError(f"'k' must be at least 1 (got {k})")
        if num_clusters is not None and num_clusters < 1:
            raise ValueError(f"'num_clusters' must be at least 1 (got {num_clusters})")
        if num_components < 1:
            raise ValueError(f"'num_components' must be at least 1 (got {num_components})")
        if method == 'dp' or epsilon is not None or delta is not None:
            raise UnsupportedError(
                'Differentially private quantization is not offered by this version; '
                "leave 'epsilon' and 'delta' at None and use method='kmeans'"
            )
        if method != 'kmeans':
            raise ValueError(f"'method' must be 'kmeans' (got '{method}')")
        self.k = k
        self.num_clusters = num_clusters
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.seed = seed
        self.num_components = num_components

    def forward(self, data: Data) -> Data:
        x = check_features(data)
        num_clusters = self.num_clusters_for(x.size(0))
        solver = ConstrainedKMeans(num_clusters, self.k, random_state=self.seed)
        solver.fit(reduce_features(x, self.num_components, self.seed))
        cluster = torch.from_numpy(solver.labels_)
        verify_sizes(cluster, num_clusters, self.k)

        data.codebook = cluster_means(x, cluster, num_clusters).to(data.x.device)
        data.cluster = cluster.to(data.x.device)
        data.x = data.codebook[data.cluster]
        return data

    def num_clusters_for(self, num_nodes: int) -> int:
        r"""The number of clusters for a graph of this size, or why there is none."""
        if self.k > num_nodes:
            raise ValueError(
                f"'k' must not exceed the number of nodes (got k={self.k} for {num_nodes} nodes)"
            )
        num_clusters = self.num_clusters or num_nodes // self.k
        if num_clusters * self.k > num_nodes:
            raise ValueError(
                f"'num_clusters' * 'k' must not exceed the number of nodes "
                f'(got {num_clusters} * {self.k} > {num_nodes}): use at most '
                f'{num_nodes // self.k} clusters'
            )
        return num_clusters

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(k={self.k}, num_clusters={self.num_clusters}, '
            f"method='{self.method}', epsilon={self.epsilon}, delta={self.delta}, "
            f'seed={self.seed}, num_components={self.num_components})'
        )


def check_features(data: Data) -> Tensor:
    r"""Returns the features as a float matrix on the CPU, or says what is wrong."""
    x = data.x
    if x is None:
        raise SourceError("The graph has no node features 'x'")
    if x.dim() != 2 or x.size(0) == 0 or x.size(1) == 0:
        raise SourceError(f"'x' must be a non-empty [N, F] matrix (got {list(x.shape)})")
    x = x.cpu() if x.is_floating_point() else x.cpu().float()
    bad = ~torch.isfinite(x)
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        raise SourceError(
            f"'x' must be finite (got {int(bad.sum())} NaN or infinite values, "
            f'the first in row {row}, column {column})'
        )
    return x


def verify_sizes(cluster: Tensor, num_clusters: int, k: int) -> None:
    r"""Refuses a clustering with a cluster below :math:`k`: it is never released."""
    sizes = torch.bincount(cluster, minlength=num_clusters)
    if sizes.numel() != num_clusters or int(sizes.min()) < k:
        raise AnonymityError(
            f'{int((sizes < k).sum())} of {sizes.numel()} clusters have fewer than {k} '
            f'members (the smallest has {int(sizes.min())})'
        )
