r"""Cells, groups of neighbouring clusters: how they are drawn, and how one of them is improved."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.kmeans_steps import (
    assign_by_flow,
    assign_greedily,
    candidate_costs,
    centers_and_sizes,
    standardize,
)
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.rows import rows_per_block, work_dtype

MIN_CELL_CLUSTERS = 8  # In smaller cells, rows have too few clusters to choose from.
STEPS_PER_CELL = 2  # After two steps, new cells lower the inertia more than further steps.
CELL_TOL = 1e-3


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


def refine_cells(
    x: Tensor,
    labels: Tensor,
    cells: Tensor,
    num_cells: int,
    size_min: int,
    num_candidates: int,
    cell_size: int,
    device: torch.device,
) -> Tensor:
    r"""Refines each cell on its own. Cells share neither rows nor clusters.

    Args:
        x (torch.Tensor): The rows, of shape :obj:`[num_rows, num_features]`.
        labels (torch.Tensor): The present cluster of each row.
        cells (torch.Tensor): The cell of each cluster.
        num_cells (int): The number of cells.
        size_min (int): The minimum size of a cluster.
        num_candidates (int): How many other clusters a row may move to in one step.
        cell_size (int): The number of rows of a cell. In cells that are four times as large,
            rows are assigned greedily.
        device (torch.device): The device to compute on.
    """
    cell_of_row = cells[labels]
    order = cell_of_row.argsort(stable=True)
    counts = torch.bincount(cell_of_row, minlength=num_cells).tolist()
    out = labels.clone()
    for rows in order.split(counts):
        if rows.numel() == 0:  # a cell of another process
            continue
        clusters, local = labels[rows].unique(return_inverse=True)
        refined, _ = refine_cell(
            to_device(x[rows], device).to(work_dtype(x.dtype)),
            to_device(local, device),
            clusters.numel(),
            size_min,
            num_candidates,
            STEPS_PER_CELL,
            CELL_TOL,
            4 * cell_size,
        )
        out[rows] = clusters[refined.cpu()]
    return out


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
                proposal = to_device(torch.from_numpy(choice), x.device)
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
