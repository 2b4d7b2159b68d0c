r"""Assignments of rows to clusters of a minimum size: recursive, greedy, and by a min-cost flow."""

from __future__ import annotations

import numpy as np
import torch
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
from torch import Tensor

from torch_geometric_cgt.quantizer.centers import squared_distance, standardize
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, rank_among_equals, work_dtype

NUM_PARTS = 32  # Parts per split: few enough to be quick, enough to follow the shape of the data.
SAMPLE_ROWS = 256 * NUM_PARTS  # Enough rows to place the parts; all rows are then assigned.
# The flow solver takes integers. The difference between the cheapest and the dearest choice has
# this many steps: the solver multiplies costs by the number of nodes, which must stay below 2^63.
COST_STEPS = 2**30


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
        z, _, _ = standardize(x[rows].to(device, work_dtype(x.dtype)))  # [R, F]
        centers, sizes = _k_means(z, min(NUM_PARTS, m), generator)
        share = _apportion(sizes, m)
        part = assign_greedily(z, centers, share * size_min).cpu()
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
    sizes = torch.bincount(labels, minlength=num_clusters)

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
        sizes -= torch.bincount(labels[moved], minlength=num_clusters)
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


def _k_means(
    x: Tensor, num_clusters: int, generator: torch.Generator, max_iter: int = 6
) -> tuple[Tensor, Tensor]:
    r"""Plain k-means on a sample (k-means++ start), for centres and sizes only."""
    if x.size(0) > SAMPLE_ROWS:
        x = x[torch.randint(x.size(0), (SAMPLE_ROWS,), generator=generator).to(x.device)]
    centers = x[torch.randint(x.size(0), (1,), generator=generator).to(x.device)]
    dist = squared_distance(x, centers).view(-1)
    for _ in range(num_clusters - 1):
        draw = torch.rand(1, generator=generator, dtype=torch.float64).to(x.device)
        mass = dist.double().cumsum(0)
        pick = torch.searchsorted(mass, draw * mass[-1]).clamp(max=x.size(0) - 1)
        centers = torch.cat([centers, x[pick]])
        dist = torch.minimum(dist, squared_distance(x, x[pick]).view(-1))
    for _ in range(max_iter):
        labels = squared_distance(x, centers).argmin(dim=1)
        sizes = torch.bincount(labels, minlength=num_clusters)
        total = torch.zeros_like(centers).index_add_(0, labels, x)
        centers = torch.where(
            (sizes > 0).unsqueeze(1), total / sizes.clamp(min=1).unsqueeze(1), centers
        )
    return centers, sizes


def _apportion(sizes: Tensor, total: int) -> Tensor:
    r"""Shares out :obj:`total` clusters in proportion to :obj:`sizes`, at least one to each."""
    quota = sizes.double() / sizes.sum() * (total - sizes.numel())
    share = quota.floor().long()
    left = total - sizes.numel() - int(share.sum())
    share[(quota - share).argsort(descending=True, stable=True)[:left]] += 1
    return share + 1
