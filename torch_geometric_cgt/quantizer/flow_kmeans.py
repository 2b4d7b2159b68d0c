r"""K-means with a minimum cluster size, from a few rows to millions."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.base import Quantizer
from torch_geometric_cgt.quantizer.cell import refine_cell
from torch_geometric_cgt.quantizer.distance import centers_of, inertia_of
from torch_geometric_cgt.quantizer.split import split_clusters, split_rows
from torch_geometric_cgt.quantizer.validate import check_positive
from torch_geometric_cgt.utils.memory import check_memory
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, work_dtype

MIN_CELL_CLUSTERS = 8  # Cells of fewer clusters leave the rows too little to choose from.
STEPS_PER_CELL = 2  # Then the boundaries between cells matter more than what is inside them.
CELL_TOL = 1e-3


class FlowKMeans(Quantizer):
    r"""K-means in which every cluster has at least :obj:`size_min` rows, at every step.

    Rows are first split recursively into clusters that respect the minimum size. Then each step
    assigns all rows at once to one of their nearest clusters, at the least cost that keeps every
    cluster large enough: a min-cost flow. A row may always stay where it is, so there always is a
    solution, and a step that would raise the inertia is not taken.

    Beyond twice :obj:`cell_size` rows, a step treats cells of neighbouring clusters one after the
    other, and each step draws new cells. Time is then linear in the number of rows.

    Many of its operations are small. Where other programs compete for the cores,
    :obj:`torch.set_num_threads(1)` can make it several times faster.

    Args:
        n_clusters (int): The number of clusters, at most :obj:`num_rows // size_min`.
        size_min (int): The least number of rows in a cluster.
        max_iter (int, optional): The largest number of steps. With millions of rows more steps
            still lower the inertia by some percent. (default: :obj:`12`)
        n_candidates (int, optional): How many nearest clusters a row may move to in one step.
            (default: :obj:`5`)
        cell_size (int, optional): The number of rows that are treated at once. Larger cells come
            closer to the optimum, and take more time and memory. (default: :obj:`10000`)
        tol (float, optional): Stop when a step lowers the inertia by less than this share of it.
            (default: :obj:`1e-3`)
        min_labels (int, optional): The least number of distinct labels in a cluster; needs
            :obj:`y` in :meth:`fit`. Clusters are merged where exchanging rows does not suffice, so
            that there may be fewer than :obj:`n_clusters`. (default: :obj:`None`)
        random_state (int, optional): The seed. (default: :obj:`0`)
        device (str, optional): Where distances are computed. (default: :obj:`"cpu"`)
        callback (callable, optional): Called as :obj:`callback(step, total)` after each step.
            (default: :obj:`None`)
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

    def _cluster(self, x: Tensor) -> tuple[Tensor, list[float], int]:
        check_positive('n_candidates', self.n_candidates)
        check_positive('cell_size', self.cell_size)
        device = torch.device(self.device)
        self._check_memory(x, device)
        generator = torch.Generator().manual_seed(self.random_state)

        labels = split_rows(x, self.n_clusters, self.size_min, generator, device)
        if x.size(0) <= 2 * self.cell_size or self.n_clusters < 2 * MIN_CELL_CLUSTERS:
            whole = x.to(device, work_dtype(x.dtype))
            labels, path = refine_cell(
                whole,
                labels.to(device),
                self.n_clusters,
                self.size_min,
                self.n_candidates,
                self.max_iter,
                self.tol,
                4 * self.cell_size,
                self.callback,
            )
            return labels.cpu(), path, len(path) - 1

        centers, sizes = centers_of(x, labels, self.n_clusters)
        path = [inertia_of(x, labels, centers)]
        for step in range(self.max_iter):
            cells, num_cells = split_clusters(
                centers.to(work_dtype(x.dtype)), sizes, self.cell_size, MIN_CELL_CLUSTERS, generator
            )
            labels = self._refine(x, labels, cells, num_cells, device)
            centers, sizes = centers_of(x, labels, self.n_clusters)
            path.append(inertia_of(x, labels, centers))
            if self.callback is not None:
                self.callback(step + 1, self.max_iter)
            if path[-2] - path[-1] <= self.tol * path[-2]:
                break
        return labels, path, len(path) - 1

    def _refine(
        self, x: Tensor, labels: Tensor, cells: Tensor, num_cells: int, device: torch.device
    ) -> Tensor:
        r"""Lets every cell improve by itself. Cells share neither rows nor clusters."""
        cell_of_row = cells[labels]
        order = cell_of_row.argsort(stable=True)
        counts = torch.bincount(cell_of_row, minlength=num_cells).tolist()
        out = labels.clone()
        for rows in order.split(counts):
            clusters, local = labels[rows].unique(return_inverse=True)
            cell_x = x[rows].to(device, work_dtype(x.dtype))
            refined, _ = refine_cell(
                cell_x,
                local.to(device),
                clusters.numel(),
                self.size_min,
                self.n_candidates,
                STEPS_PER_CELL,
                CELL_TOL,
                4 * self.cell_size,
            )
            out[rows] = clusters[refined.cpu()]
        return out

    def _check_memory(self, x: Tensor, device: torch.device) -> None:
        r"""Refuses what cannot fit: the rows of the first split, a cell with its arcs, counters."""
        n, f = x.shape
        itemsize = work_dtype(x.dtype).itemsize
        largest = 2 * MIN_CELL_CLUSTERS * max(n // self.n_clusters, self.size_min)
        cell = min(n, max(2 * self.cell_size, largest))
        arcs = min(cell, 4 * self.cell_size) * (self.n_candidates + 1)
        rows = max(2 * n * f * itemsize, cell * f * (3 * itemsize + 8) + 120 * arcs)
        needed = rows + 60 * n + 24 * self.n_clusters * f + 3 * BLOCK_ELEMENTS * 8
        check_memory(
            needed,
            f'clustering {n} x {f} into {self.n_clusters} clusters',
            "reduce the features first or lower 'cell_size'",
            device,
        )
