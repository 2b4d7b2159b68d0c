r"""Lloyd steps within one cell: a few thousand rows, and clusters that lie wholly inside."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.distance import candidate_costs, centers_of, standardize
from torch_geometric_cgt.quantizer.flow import flow_assign
from torch_geometric_cgt.quantizer.greedy import greedy_assign
from torch_geometric_cgt.utils.rows import rows_per_block


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

    A step is taken only if it lowers the inertia, so the minimum size and a falling inertia hold
    after every step.

    Args:
        x (torch.Tensor): The rows of the cell, of shape :obj:`[num_rows, num_features]`.
        labels (torch.Tensor): The present cluster of each row.
        num_clusters (int): The number of clusters in the cell.
        size_min (int): The minimum size.
        num_candidates (int): How many other clusters a row may move to in one step.
        max_iter (int): The largest number of steps.
        tol (float): Stop when a step lowers the inertia by less than this share of it.
        max_flow_rows (int): In a larger cell rows are assigned greedily instead of by a flow.
        callback (callable, optional): Called as :obj:`callback(step, total)` after each step.
            (default: :obj:`None`)

    Returns:
        The new assignment, and the inertia before and after each step.
    """
    scaled, offset, scale = standardize(x)
    spread = _spread(x, offset)
    centers, sizes = centers_of(x, labels, num_clusters)
    between = _between(centers, sizes, offset)
    path = [max(spread - between, 0.0)]
    if num_clusters == 1:
        return labels, path

    for step in range(max_iter):
        # Moves are priced one by one but made together; if that overshoots, plain Lloyd does not.
        for correct in (True, False):
            local = ((centers - offset) * scale).to(scaled.dtype)
            if x.size(0) > max_flow_rows:
                proposal = greedy_assign(scaled, local, torch.full_like(sizes, size_min))
            else:
                clusters, costs = candidate_costs(
                    scaled, labels, local, num_candidates, sizes, correct
                )
                choice = flow_assign(
                    clusters.cpu().numpy(), costs.double().cpu().numpy(), num_clusters, size_min
                )
                proposal = torch.from_numpy(choice).to(x.device)
            new_centers, new_sizes = centers_of(x, proposal, num_clusters)
            new_between = _between(new_centers, new_sizes, offset)
            # What counts as lower must be larger than what float64 can mistake for it.
            if new_between - between > max(1e-9 * path[-1], 1e-12 * spread):
                break
        else:
            return labels, path
        labels, centers, sizes, between = proposal, new_centers, new_sizes, new_between
        path.append(max(spread - between, 0.0))
        if callback is not None:
            callback(step + 1, max_iter)
        if path[-2] - path[-1] < tol * path[-2]:
            break
    return labels, path


def _spread(x: Tensor, offset: Tensor) -> float:
    r"""The inertia of all rows around their common mean: what clusters divide up."""
    step = rows_per_block(x.size(1))
    return sum(float((block.double() - offset).square_().sum()) for block in x.split(step))


def _between(centers: Tensor, sizes: Tensor, offset: Tensor) -> float:
    r"""The part of the spread that the centres account for; the inertia is the rest."""
    return float(((centers - offset).square().sum(dim=1) * sizes).sum())
