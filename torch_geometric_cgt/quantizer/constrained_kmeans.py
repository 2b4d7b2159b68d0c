r"""K-means with a minimum cluster size: for up to millions of rows, and an exact one for few."""

from collections.abc import Callable

import numpy as np
import torch
from k_means_constrained import KMeansConstrained
from torch import Tensor

from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer
from torch_geometric_cgt.quantizer.kmeans_steps import (
    assign_by_flow,
    assign_greedily,
    assign_recursively,
    candidate_costs,
    centers_and_sizes,
    inertia_of,
    standardize,
)
from torch_geometric_cgt.utils.checks import check_memory, check_positive
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, rows_per_block, work_dtype

MIN_CELL_CLUSTERS = 8  # In smaller cells, rows have too few clusters to choose from.
STEPS_PER_CELL = 2  # After two steps, new cells lower the inertia more than further steps.
CELL_TOL = 1e-3
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

        labels = assign_recursively(x, self.n_clusters, self.size_min, generator, device)
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

        centers, sizes = centers_and_sizes(x, labels, self.n_clusters)
        path = [inertia_of(x, labels, centers)]
        for step in range(self.max_iter):
            cells, num_cells = split_into_cells(
                centers.to(work_dtype(x.dtype)), sizes, self.cell_size, MIN_CELL_CLUSTERS, generator
            )
            labels = self._refine(x, labels, cells, num_cells, device)
            centers, sizes = centers_and_sizes(x, labels, self.n_clusters)
            path.append(inertia_of(x, labels, centers))
            if self.callback is not None:
                self.callback(step + 1, self.max_iter)
            if path[-2] - path[-1] <= self.tol * path[-2]:
                break
        return labels, path, len(path) - 1

    def _refine(
        self, x: Tensor, labels: Tensor, cells: Tensor, num_cells: int, device: torch.device
    ) -> Tensor:
        r"""Refines each cell on its own. Cells share neither rows nor clusters."""
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
        r"""Raises an error if the rows of the first split, or a cell and its arcs, do not fit."""
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


def split_into_cells(
    centers: Tensor, sizes: Tensor, cell_size: int, min_clusters: int, generator: torch.Generator
) -> tuple[Tensor, int]:
    r"""Groups clusters into cells of neighbours with about :obj:`cell_size` rows each.

    Cells are cut in two recursively, across the line through two random centres, at a random
    place near the middle. Cuts differ between calls, so that clusters on two sides of a boundary
    soon share a cell.

    Args:
        centers (torch.Tensor): The centres, of shape :obj:`[num_clusters, num_features]`.
        sizes (torch.Tensor): The number of rows in each cluster.
        cell_size (int): The largest number of rows in a cell.
        min_clusters (int): The least number of clusters in a cell, whatever its number of rows.
        generator (torch.Generator): The source of randomness, on the CPU.

    Returns:
        The cell of each cluster, and the number of cells.
    """
    cells = torch.empty(centers.size(0), dtype=torch.long)
    stack = [torch.arange(centers.size(0))]
    done = 0
    while stack:
        part = stack.pop()
        if int(sizes[part].sum()) <= cell_size or part.numel() < 2 * min_clusters:
            cells[part] = done
            done += 1
            continue
        local = centers[part]
        pair = torch.randint(part.numel(), (2,), generator=generator)
        share = 0.35 + 0.3 * float(torch.rand(1, generator=generator))
        cut = min(max(round(share * part.numel()), min_clusters), part.numel() - min_clusters)
        order = (local @ (local[pair[0]] - local[pair[1]])).argsort(stable=True)
        stack.append(part[order[:cut]])
        stack.append(part[order[cut:]])
    return cells, done


def refine_cell(
    x: Tensor,
    labels: Tensor,
    num_clusters: int,
    size_min: int,
    num_candidates: int,
    max_iter: int,
    tol: float,
    max_flow_rows: int,
    callback: Callable[[int, int], None] | None = None,
) -> tuple[Tensor, list[float]]:
    r"""Improves an assignment whose clusters all have at least :obj:`size_min` rows.

    Each step assigns all rows at once, by a flow or, in large cells, greedily. It is taken only if
    it lowers the inertia.

    Args:
        x (torch.Tensor): The rows of the cell, of shape :obj:`[num_rows, num_features]`.
        labels (torch.Tensor): The present cluster of each row.
        num_clusters (int): The number of clusters in the cell.
        size_min (int): The minimum size.
        num_candidates (int): How many other clusters a row may move to in one step.
        max_iter (int): The largest number of steps.
        tol (float): Stop when a step lowers the inertia by less than this share of it.
        max_flow_rows (int): With more rows, they are assigned greedily instead of by a flow.
        callback (callable, optional): Called as :obj:`callback(step, total)` after each step.
            (default: :obj:`None`)

    Returns:
        The new assignment, and the inertia before and after each step.
    """
    scaled, offset, scale = standardize(x)
    total = _total_inertia(x, offset)
    centers, sizes = centers_and_sizes(x, labels, num_clusters)
    explained = _explained_inertia(centers, sizes, offset)
    path = [max(total - explained, 0.0)]
    if num_clusters == 1:
        return labels, path

    for step in range(max_iter):
        # Costs by Hartigan's rule hold for one move at a time. Where all moves together raise the
        # inertia, costs by Lloyd's rule cannot.
        for correct in (True, False):
            local = ((centers - offset) * scale).to(scaled.dtype)
            if x.size(0) > max_flow_rows:
                proposal = assign_greedily(scaled, local, torch.full_like(sizes, size_min))
            else:
                clusters, costs = candidate_costs(
                    scaled, labels, local, num_candidates, sizes, correct
                )
                choice = assign_by_flow(
                    clusters.cpu().numpy(), costs.double().cpu().numpy(), num_clusters, size_min
                )
                proposal = torch.from_numpy(choice).to(x.device)
            new_centers, new_sizes = centers_and_sizes(x, proposal, num_clusters)
            new_explained = _explained_inertia(new_centers, new_sizes, offset)
            # The inertia must fall by more than the rounding error of float64.
            if new_explained - explained > max(1e-9 * path[-1], 1e-12 * total):
                break
        else:
            return labels, path
        labels, centers, sizes, explained = proposal, new_centers, new_sizes, new_explained
        path.append(max(total - explained, 0.0))
        if callback is not None:
            callback(step + 1, max_iter)
        if path[-2] - path[-1] < tol * path[-2]:
            break
    return labels, path


def _total_inertia(x: Tensor, offset: Tensor) -> float:
    r"""The inertia of all rows around their common mean."""
    step = rows_per_block(x.size(1))
    return sum(float((block.double() - offset).square_().sum()) for block in x.split(step))


def _explained_inertia(centers: Tensor, sizes: Tensor, offset: Tensor) -> float:
    r"""The part of the total inertia between the clusters; the inertia within them is the rest."""
    return float(((centers - offset).square().sum(dim=1) * sizes).sum())


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
