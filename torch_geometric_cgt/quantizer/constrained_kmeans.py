r"""K-means with a minimum cluster size, by the k-means-constrained package; for few rows."""

import numpy as np
import torch
from k_means_constrained import KMeansConstrained
from torch import Tensor

from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer
from torch_geometric_cgt.quantizer.centers import centers_and_sizes, inertia_of
from torch_geometric_cgt.utils.memory import check_memory

# The package rounds 1,000 times a distance to a 32-bit integer. Rows are scaled to this radius,
# where these integers neither overflow nor lose relevant digits.
RADIUS = 5e5
BYTES_PER_ARC = 150  # Measured: one arc from each row to each cluster, in NumPy and in the solver.


class ConstrainedKMeans(KAnonymousQuantizer):
    r"""K-means that assigns rows by an exact flow over all pairs of rows and clusters.

    It wraps :obj:`k_means_constrained.KMeansConstrained` with a k-means++ start. :obj:`labels_`
    is the assignment of the flow, since nearest centres would break the minimum size. Use it for
    up to about 10,000 rows, and :class:`~torch_geometric_cgt.quantizer.FlowKMeans` for more: time
    grows faster than the number of rows.

    Args:
        n_clusters (int): The number of clusters, at most :obj:`num_rows // size_min`.
        size_min (int): The least number of rows in a cluster.
        max_iter (int, optional): The largest number of steps. (default: :obj:`50`)
        min_labels (int, optional): The least number of distinct labels in a cluster; needs
            :obj:`y` in :meth:`fit`. (default: :obj:`None`)
        random_state (int, optional): The seed. (default: :obj:`0`)
    """

    def __init__(
        self,
        n_clusters: int,
        size_min: int,
        max_iter: int = 50,
        min_labels: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.max_iter = max_iter
        self.min_labels = min_labels
        self.random_state = random_state

    def _cluster(self, x: Tensor) -> tuple[Tensor, list[float], int]:
        num_rows = x.size(0)
        check_memory(
            num_rows * self.n_clusters * BYTES_PER_ARC,
            f'an exact flow of {num_rows} rows and {self.n_clusters} clusters',
            "use 'FlowKMeans' or lower 'n_clusters'",
        )
        labels, num_iter = torch.zeros(num_rows, dtype=torch.long), 0
        z = x.double() - x.mean(dim=0, dtype=torch.float64)
        radius = float(z.norm(dim=1).max())
        if radius == 0.0 or self.n_clusters == 1:
            # Equal rows or one cluster: every assignment is optimal.
            labels = torch.arange(num_rows) % self.n_clusters
        else:
            model = KMeansConstrained(
                self.n_clusters,
                size_min=self.size_min,
                init='k-means++',
                n_init=1,
                max_iter=self.max_iter,
                random_state=self.random_state,
            )
            model.fit((z * (RADIUS / radius)).numpy())
            labels = torch.from_numpy(np.asarray(model.labels_, dtype=np.int64))
            num_iter = int(model.n_iter_)
        centers, _ = centers_and_sizes(x, labels, self.n_clusters)
        return labels, [inertia_of(x, labels, centers)], num_iter
