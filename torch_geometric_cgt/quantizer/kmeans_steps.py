r"""The two steps of k-means: centres of clusters, and assignments with a minimum cluster size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
from torch import Tensor

from torch_geometric_cgt.utils.checks import as_labels, check_memory, check_positive
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import (
    BLOCK_ELEMENTS,
    rank_among_equals,
    row_blocks,
    rows_per_block,
    work_dtype,
)

NUM_PARTS = 32  # Parts per split: few enough to be quick, enough to follow the shape of the data.
SAMPLE_ROWS = 256 * NUM_PARTS  # Enough rows to place the parts; all rows are then assigned.
# The flow solver takes integers. The difference between the cheapest and the dearest choice has
# this many steps: the solver multiplies costs by the number of nodes, which must stay below 2^63.
COST_STEPS = 2**30


def cluster_means(x: Tensor, labels: Any, num_clusters: int, world: World | None = None) -> Tensor:
    r"""Returns the mean row of each cluster as a dense tensor of shape
    :obj:`[num_clusters, num_features]`, in the type of :obj:`x`.

    Sums are taken in :obj:`float64`, one block of rows at a time; sparse rows are never densified.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR), of any floating type.
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        num_clusters (int): The number of clusters, each of which needs at least one row.
        world (World, optional): The processes, if each of them holds some of the rows.
            (default: :obj:`None`)
    """
    world = world or World()
    check_positive('num_clusters', num_clusters)
    if x.dim() != 2:
        raise ValueError(f"'x' must have two dimensions (got shape {list(x.shape)})")
    labels = as_labels(labels, x.size(0), 'labels', lowest=0)
    top = int(labels.max()) if labels.numel() > 0 else None
    if (top is None and world.size == 1) or (top is not None and top >= num_clusters):
        raise ValueError(f"'labels' must lie below 'num_clusters' = {num_clusters} (got {top})")
    empty = int((world.sum(torch.bincount(labels, minlength=num_clusters)) == 0).sum())
    if empty > 0:
        raise ValueError(
            f'every cluster needs a row to have a mean (got {empty} empty of '
            f"{num_clusters}): relabel the clusters or lower 'num_clusters'"
        )
    check_memory(
        num_clusters * x.size(1) * 12,
        f'a codebook of {num_clusters} x {x.size(1)}',
        "lower 'num_clusters'",
        x.device,
    )
    means, _ = centers_and_sizes(x, labels.to(x.device), num_clusters, world)
    return means.to(x.dtype) if x.is_floating_point() else means


def centers_and_sizes(
    x: Tensor, labels: Tensor, num_clusters: int, world: World | None = None
) -> tuple[Tensor, Tensor]:
    r"""Returns the means (:obj:`float64`) and the sizes of the clusters, without any check.

    Args:
        x (torch.Tensor): The rows, dense or sparse (COO, CSR).
        labels (torch.Tensor): The cluster of each row.
        num_clusters (int): The number of clusters, none of them empty.
        world (World, optional): The processes, if each of them holds some of the rows.
            (default: :obj:`None`)
    """
    num_features = x.size(1)
    total = torch.zeros(num_clusters, num_features, dtype=torch.float64, device=x.device)
    for start, stop, block in row_blocks(x, rows_per_block(2 * num_features)):
        cluster = labels[start:stop]
        if block.layout == torch.strided:
            total.index_add_(0, cluster, block.double())
        else:
            row, col = block._indices()
            entry = cluster[row] * num_features + col
            total.view(-1).index_add_(0, entry, block._values().double())
    sizes = cluster_sizes(labels, num_clusters)
    if world is not None:
        total, sizes = world.sum(total), world.sum(sizes)
    total /= sizes.unsqueeze(1)
    return total, sizes


def cluster_sizes(labels: Tensor, num_clusters: int) -> Tensor:
    r"""Returns the number of rows of each cluster.

    Args:
        labels (torch.Tensor): The cluster of each row.
        num_clusters (int): The number of clusters.
    """
    if labels.device.type == 'cpu':
        return torch.bincount(labels, minlength=num_clusters)
    # The host would wait for a GPU, of which bincount reads the largest label.
    return labels.new_zeros(num_clusters).index_add_(0, labels, torch.ones_like(labels))


def inertia_of(x: Tensor, labels: Tensor, centers: Tensor) -> float:
    r"""Returns the sum of squared distances of the rows to the centres of their own clusters.

    It is computed from differences in :obj:`float64`, so that rounding errors stay below the
    differences between two assignments.
    """
    total = 0.0
    step = rows_per_block(x.size(1))
    for start in range(0, x.size(0), step):
        rows = slice(start, start + step)
        diff = x[rows].double() - centers[labels[rows]]
        total += float(diff.square_().sum())
    return total


def standardize(x: Tensor) -> tuple[Tensor, Tensor, float]:
    r"""Moves and scales rows into the unit box, where squares neither cancel nor overflow.

    Returns:
        The new rows, the offset (:obj:`float64`) that was subtracted from them, and the scale
        that they were then multiplied with.
    """
    offset = x.mean(dim=0, dtype=torch.float64)
    above, below = x.max(dim=0).values - offset, x.min(dim=0).values - offset
    reach = float(torch.maximum(above.abs().max(), below.abs().max()))
    scale = 1.0 / reach if reach > 0.0 else 1.0
    return (x - offset.to(x.dtype)).mul_(scale), offset, scale


def squared_distance(x: Tensor, centers: Tensor) -> Tensor:
    r"""Returns all squared distances, of shape :obj:`[num_rows, num_centers]`.

    Rows and centres should be centred, see :meth:`standardize`: the expanded square loses digits
    far from the origin.
    """
    dist = torch.addmm((centers * centers).sum(1).unsqueeze(0), x, centers.t(), alpha=-2.0)
    return dist.add_((x * x).sum(1, keepdim=True)).clamp_(min=0.0)


def nearest_center(x: Tensor, centers: Tensor) -> Tensor:
    r"""Returns the index of the nearest centre of each row, of shape :obj:`[num_rows]`.

    The clusters that result may have any size, so this must not replace the assignment of a
    :math:`k`-anonymous clustering.

    Args:
        x (torch.Tensor): The rows, dense or sparse (COO, CSR).
        centers (torch.Tensor): The centres, of shape :obj:`[num_centers, num_features]`.
    """
    centers = centers.to(work_dtype(x.dtype))
    offset = centers.mean(dim=0)
    centers = centers - offset  # The expanded square loses digits far from the origin.
    nearest = []
    for _, _, rows in row_blocks(x, rows_per_block(max(centers.shape))):
        if rows.layout == torch.strided:
            dist = squared_distance(rows - offset, centers)
        else:  # Without the squared length of the row, which is the same for all centres.
            length = (centers * centers).sum(dim=1) + 2 * (centers @ offset)
            dist = length - 2 * torch.sparse.mm(rows, centers.t().contiguous())
        nearest.append(dist.argmin(dim=1))
    return torch.cat(nearest)


def assign_recursively(
    x: Tensor, num_clusters: int, size_min: int, generator: torch.Generator, device: torch.device
) -> Tensor:
    r"""Assigns rows to :obj:`num_clusters` clusters of at least :obj:`size_min` rows each.

    Rows are split into a few parts by k-means, and the parts are split again. Each part receives
    a whole number of clusters in proportion to its rows, and at least the rows that these
    clusters need.

    Args:
        x (torch.Tensor): The rows, with :obj:`x.size(0) >= num_clusters * size_min`.
        num_clusters (int): The number of clusters.
        size_min (int): The minimum size.
        generator (torch.Generator): The source of randomness, on the CPU.
        device (torch.device): The device to compute on.
    """
    labels = torch.empty(x.size(0), dtype=torch.long)
    stack = [(torch.arange(x.size(0)), num_clusters)]
    done = 0
    while stack:
        rows, m = stack.pop()
        if m == 1:
            labels[rows] = done
            done += 1
            continue
        z, _, _ = standardize(to_device(x[rows], device).to(work_dtype(x.dtype)))  # [R, F]
        centers, sizes = k_means(z, min(NUM_PARTS, m), generator)
        share = apportion(sizes.cpu(), m)
        part = assign_greedily(z, centers, to_device(share * size_min, device)).cpu()
        order = part.argsort(stable=True)
        counts = torch.bincount(part, minlength=centers.size(0)).tolist()
        stack.extend(zip(rows[order].split(counts), share.tolist(), strict=True))
    return labels


def assign_greedily(x: Tensor, centers: Tensor, size_min: Tensor) -> Tensor:
    r"""Assigns each row to its nearest centre, then moves rows into clusters that are too small.

    The rows that move are those with the least regret, the distance to the new centre minus the
    distance to the present one. No cluster falls below its minimum size thereby. This is meant
    for few large clusters, where hardly any cluster is too small, and a flow would be too large.

    Args:
        x (torch.Tensor): The rows, of shape :obj:`[num_rows, num_features]`, at least as many as
            :obj:`size_min` sums up to.
        centers (torch.Tensor): The centres, of shape :obj:`[num_clusters, num_features]`.
        size_min (torch.Tensor): The minimum size of each cluster.
    """
    num_clusters = centers.size(0)
    step = max(1, BLOCK_ELEMENTS // num_clusters)
    nearest = [squared_distance(block, centers).min(dim=1) for block in x.split(step)]
    labels = torch.cat([choice.indices for choice in nearest])
    dist = torch.cat([choice.values for choice in nearest])
    sizes = cluster_sizes(labels, num_clusters)

    for cluster in (sizes - size_min).argsort(stable=True).tolist():
        lacking = int(size_min[cluster] - sizes[cluster])
        if lacking <= 0:
            break
        spare = (sizes - size_min).clamp(min=0)
        rows = (spare[labels] > 0).nonzero().view(-1)
        new_dist = torch.cat(
            [
                squared_distance(x[block], centers[cluster : cluster + 1]).view(-1)
                for block in rows.split(step)
            ]
        )
        order = (new_dist - dist[rows]).argsort(stable=True)
        allowed = rank_among_equals(labels[rows[order]]) < spare[labels[rows[order]]]
        chosen = order[allowed][:lacking]
        moved = rows[chosen]
        sizes -= cluster_sizes(labels[moved], num_clusters)
        sizes[cluster] += lacking
        labels[moved] = cluster
        dist[moved] = new_dist[chosen]
    return labels


def candidate_costs(
    x: Tensor, labels: Tensor, centers: Tensor, num_candidates: int, sizes: Tensor, correct: bool
) -> tuple[Tensor, Tensor]:
    r"""Returns the clusters that each row may choose, its present one first, and their costs.

    With :obj:`correct=False`, the cost is the squared distance (Lloyd's step). With
    :obj:`correct=True`, it is the change of the inertia when this row alone moves (Hartigan's
    rule). A row pulls its own centre towards itself: leaving a cluster of :math:`s` rows saves
    :math:`s / (s - 1)` times the squared distance, and entering one costs :math:`s / (s + 1)`
    times it. The difference matters for clusters of the sizes used for k-anonymity.

    Args:
        x (torch.Tensor): The rows, of shape :obj:`[num_rows, num_features]`.
        labels (torch.Tensor): The present cluster of each row.
        centers (torch.Tensor): The centres, of shape :obj:`[num_clusters, num_features]`.
        num_candidates (int): How many other clusters each row may choose from.
        sizes (torch.Tensor): The size of each cluster.
        correct (bool): Whether to correct for the pull of a row on its own centre.

    Returns:
        Two tensors of shape :obj:`[num_rows, 1 + min(num_candidates, num_clusters - 1)]`.
    """
    num_clusters = centers.size(0)
    num_candidates = min(num_candidates, num_clusters - 1)
    size = sizes.to(x.dtype)
    leave = size / (size - 1).clamp(min=1.0)
    enter = size / (size + 1)

    clusters, costs = [], []
    step = max(1, BLOCK_ELEMENTS // num_clusters)
    for start in range(0, x.size(0), step):
        own = labels[start : start + step].unsqueeze(1)  # [B, 1]
        dist = squared_distance(x[start : start + step], centers)  # [B, m]
        stay = dist.gather(1, own)
        if correct:
            stay = stay * leave[own]
            dist *= enter
        dist.scatter_(1, own, float('inf'))
        cost, cluster = dist.topk(num_candidates, largest=False)
        clusters.append(torch.cat([own, cluster], dim=1))
        costs.append(torch.cat([stay, cost], dim=1))
    return torch.cat(clusters), torch.cat(costs)


def assign_by_flow(
    clusters: np.ndarray, costs: np.ndarray, num_clusters: int, size_min: int
) -> np.ndarray:
    r"""Returns the assignment of least total cost in which every cluster has :obj:`size_min` rows.

    One unit flows from each row over one of its choices to a cluster. A cluster keeps
    :obj:`size_min` units and passes the others on to a common sink.

    Args:
        clusters (numpy.ndarray): The choices of each row, of shape :obj:`[num_rows, p]`. The first
            column must be an assignment that respects the minimum size, so that a solution exists.
        costs (numpy.ndarray): The costs of these choices, of the same shape.
        num_clusters (int): The number of clusters.
        size_min (int): The minimum size.
    """
    num_rows, p = clusters.shape
    row = np.arange(num_rows)

    # Where the minimum does not bind, the cheapest choice of every row is already the answer.
    cheapest = clusters[row, costs.argmin(axis=1)]
    if np.bincount(cheapest, minlength=num_clusters).min() >= size_min:
        return cheapest

    extra = costs - costs.min(axis=1, keepdims=True)
    largest = float(extra.max())
    scale = COST_STEPS / largest if largest > 1e-200 else 0.0  # Equal costs: choose any.
    steps = np.rint(extra * scale).astype(np.int64)

    node, sink = num_rows + np.arange(num_clusters), num_rows + num_clusters
    solver = SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(
        row.repeat(p),
        num_rows + clusters.reshape(-1),
        np.ones(num_rows * p, dtype=np.int64),
        steps.reshape(-1),
    )
    solver.add_arcs_with_capacity_and_unit_cost(
        node,
        np.full(num_clusters, sink),
        np.full(num_clusters, num_rows),
        np.zeros(num_clusters, dtype=np.int64),
    )
    supply = np.full(num_rows + num_clusters + 1, 1)
    supply[node] = -size_min
    supply[sink] = num_clusters * size_min - num_rows
    solver.set_nodes_supplies(np.arange(supply.size), supply)

    status = solver.solve()
    if status != solver.OPTIMAL:
        raise RuntimeError(
            f"the flow solver found no assignment (got status '{status}'): the "
            f'first choice of each row must respect the minimum size'
        )
    flow = solver.flows(np.arange(num_rows * p)).reshape(num_rows, p)
    return clusters[row, flow.argmax(axis=1)]


def k_means(
    x: Tensor, num_clusters: int, generator: torch.Generator, max_iter: int = 6
) -> tuple[Tensor, Tensor]:
    r"""Plain k-means on a sample (k-means++ start), for centres and sizes only."""
    if x.size(0) > SAMPLE_ROWS:
        sample = torch.randint(x.size(0), (SAMPLE_ROWS,), generator=generator)
        x = x[to_device(sample, x.device)]
    centers = x[to_device(torch.randint(x.size(0), (1,), generator=generator), x.device)]
    dist = squared_distance(x, centers).view(-1)
    draws = torch.rand(num_clusters - 1, generator=generator, dtype=torch.float64)
    for draw in to_device(draws, x.device).split(1):
        mass = dist.double().cumsum(0)
        pick = torch.searchsorted(mass, draw * mass[-1]).clamp(max=x.size(0) - 1)
        centers = torch.cat([centers, x[pick]])
        dist = torch.minimum(dist, squared_distance(x, x[pick]).view(-1))
    for _ in range(max_iter):
        labels = squared_distance(x, centers).argmin(dim=1)
        sizes = cluster_sizes(labels, num_clusters)
        total = torch.zeros_like(centers).index_add_(0, labels, x)
        centers = torch.where(
            (sizes > 0).unsqueeze(1), total / sizes.clamp(min=1).unsqueeze(1), centers
        )
    return centers, sizes


def apportion(sizes: Tensor, total: int) -> Tensor:
    r"""Shares out :obj:`total` clusters in proportion to :obj:`sizes`, at least one to each."""
    quota = sizes.double() / sizes.sum() * (total - sizes.numel())
    share = quota.floor().long()
    left = total - sizes.numel() - int(share.sum())
    share[(quota - share).argsort(descending=True, stable=True)[:left]] += 1
    return share + 1
