r"""K-means with a minimum cluster size: for up to millions of rows, and an exact one for few."""

from collections.abc import Callable

import numpy as np
import torch
from k_means_constrained import KMeansConstrained
from torch import Tensor

from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer
from torch_geometric_cgt.quantizer.cells import (
    MIN_CELL_CLUSTERS,
    refine_cell,
    refine_cells,
    split_into_cells,
)
from torch_geometric_cgt.quantizer.kmeans_steps import (
    assign_recursively,
    centers_and_sizes,
    inertia_of,
)
from torch_geometric_cgt.quantizer.shared_kmeans import SharedKMeans
from torch_geometric_cgt.utils.checks import check_memory, check_positive
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, work_dtype

# k-means-constrained rounds 1,000 times a distance to a 32-bit integer. Rows are scaled to this
# radius, where these integers neither overflow nor lose relevant digits.
RADIUS = 5e5
BYTES_PER_ARC = 150  # Measured for ConstrainedKMeans: an arc from each row to each cluster.


class FlowKMeans(KAnonymousQuantizer):
    r"""K-means in which every cluster has at least :obj:`size_min` rows, at every step.

    Rows are first split recursively into clusters that respect the minimum size. Each step then
    assigns all rows to one of their nearest clusters by a min-cost flow: at the least total cost
    that keeps every cluster large enough. A row may always stay in its cluster, so there always
    is a solution. A step that would raise the inertia is not taken.

    Beyond twice :obj:`cell_size` rows, a step treats one cell after the other, where a cell is a
    group of neighbouring clusters with all their rows. Each step draws new cells. Time is then
    linear in the number of rows.

    Many of the operations are small: on busy cores, :obj:`torch.set_num_threads(1)` can make the
    clustering several times faster.

    Args:
        n_clusters (int): The number of clusters, at most :obj:`num_rows // size_min`.
        size_min (int): The least number of rows in a cluster.
        max_iter (int, optional): The largest number of steps. With millions of rows more steps
            still lower the inertia by some percent. (default: :obj:`12`)
        n_candidates (int, optional): How many nearest clusters a row may move to in one step.
            (default: :obj:`5`)
        cell_size (int, optional): The number of rows of a cell. Larger cells come closer to the
            optimum, and take more time and memory. (default: :obj:`10000`)
        tol (float, optional): Stop when a step lowers the inertia by less than this share of it.
            (default: :obj:`1e-3`)
        min_labels (int, optional): The least number of distinct labels in a cluster; needs
            :obj:`y` in :meth:`fit`. Clusters are merged where exchanging rows does not suffice, so
            that there may be fewer than :obj:`n_clusters`. (default: :obj:`None`)
        random_state (int, optional): The seed. (default: :obj:`0`)
        device (str, optional): The device on which distances are computed. (default: :obj:`"cpu"`)
        callback (callable, optional): Called as :obj:`callback(step, total)` after each step.
            (default: :obj:`None`)
        world (World, optional): The processes, if each of them calls :meth:`fit` with its own
            rows. Centres, sizes and inertia are then those of the rows of all processes, and
            :obj:`labels_` those of the rows of this process. (default: :obj:`None`)
    """

    def __init__(
        self,
        n_clusters: int,
        size_min: int,
        max_iter: int = 12,
        n_candidates: int = 5,
        cell_size: int = 10_000,
        tol: float = 1e-3,
        min_labels: int | None = None,
        random_state: int = 0,
        device: str = 'cpu',
        callback: Callable[[int, int], None] | None = None,
        world: World | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.max_iter = max_iter
        self.n_candidates = n_candidates
        self.cell_size = cell_size
        self.tol = tol
        self.min_labels = min_labels
        self.random_state = random_state
        self.device = device
        self.callback = callback
        self.world = world

    def _cluster(self, x: Tensor) -> tuple[Tensor, list[float], int]:
        check_positive('n_candidates', self.n_candidates)
        check_positive('cell_size', self.cell_size)
        device = torch.device(self.device)
        self._check_memory(x, device)
        if self.world is not None and self.world.size > 1:
            return self._cluster_shares(x, self.world)
        generator = torch.Generator().manual_seed(self.random_state)

        labels = assign_recursively(x, self.n_clusters, self.size_min, generator, device)
        if x.size(0) <= 2 * self.cell_size or self.n_clusters < 2 * MIN_CELL_CLUSTERS:
            whole = to_device(x, device).to(work_dtype(x.dtype))
            labels, path = refine_cell(
                whole,
                to_device(labels, device),
                self.n_clusters,
                self.size_min,
                self.n_candidates,
                self.max_iter,
                self.tol,
                4 * self.cell_size,
                self.callback,
            )
            return labels.cpu(), path, len(path) - 1

        centers, sizes = centers_and_sizes(x, labels, self.n_clusters)
        path = [inertia_of(x, labels, centers)]
        for step in range(self.max_iter):
            cells, num_cells = split_into_cells(
                centers.to(work_dtype(x.dtype)), sizes, self.cell_size, MIN_CELL_CLUSTERS, generator
            )
            labels = refine_cells(
                x,
                labels,
                cells,
                num_cells,
                self.size_min,
                self.n_candidates,
                self.cell_size,
                device,
            )
            centers, sizes = centers_and_sizes(x, labels, self.n_clusters)
            path.append(inertia_of(x, labels, centers))
            if self.callback is not None:
                self.callback(step + 1, self.max_iter)
            if path[-2] - path[-1] <= self.tol * path[-2]:
                break
        return labels, path, len(path) - 1

    def _cluster_shares(self, x: Tensor, world: World) -> tuple[Tensor, list[float], int]:
        r"""Clusters the rows of several processes, or lets the first one cluster few rows."""
        counts = world.gather(x.size(0))
        num_rows = sum(counts)
        if num_rows > 2 * self.cell_size and self.n_clusters > 1:
            solver = SharedKMeans(
                world,
                num_rows,
                self.n_clusters,
                self.size_min,
                self.n_candidates,
                self.cell_size,
                self.max_iter,
                self.tol,
                int(self.random_state),
                torch.device(self.device),
            )
            labels, path = solver(x, self.callback)
            return labels, path, len(path) - 1
        rows, _ = world.exchange(x, [x.size(0)] + [0] * (world.size - 1))
        alone = type(self)(**{**self.get_params(deep=False), 'world': None})
        labels, path, num_iter = world.by_first(lambda: alone._cluster(rows))
        return labels.split(counts)[world.rank].clone(), path, num_iter

    def _check_memory(self, x: Tensor, device: torch.device) -> None:
        r"""Raises an error if the rows of the first split, or a cell and its arcs, do not fit."""
        n, f = x.shape
        itemsize = work_dtype(x.dtype).itemsize
        largest = 2 * MIN_CELL_CLUSTERS * max(n // self.n_clusters, self.size_min)
        cell = min(n, max(2 * self.cell_size, largest))
        arcs = min(cell, 4 * self.cell_size) * (self.n_candidates + 1)
        # A process that holds a share of the rows works on a cell at a time.
        copies = 0 if self.world is not None and self.world.size > 1 else 2
        rows = max(copies * n * f * itemsize, cell * f * (3 * itemsize + 8) + 120 * arcs)
        needed = rows + 60 * n + 24 * self.n_clusters * f + 3 * BLOCK_ELEMENTS * 8
        check_memory(
            needed,
            f'clustering {n} x {f} into {self.n_clusters} clusters',
            "reduce the features first or lower 'cell_size'",
            device,
        )


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
