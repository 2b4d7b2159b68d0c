r"""Cluster centres: means of the members, distances to the centres, and an order of the centres."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.validation import as_labels
from torch_geometric_cgt.utils.checks import check_positive
from torch_geometric_cgt.utils.memory import check_memory
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block, work_dtype

LEAF_SIZE = 8  # So few centres are not ordered any further.
POWER_ITERATIONS = 5  # Any direction of large variance will do.


def cluster_means(x: Tensor, labels: Any, num_clusters: int) -> Tensor:
    r"""Returns the mean row of each cluster as a dense tensor of shape
    :obj:`[num_clusters, num_features]`, in the type of :obj:`x`.

    Sums are taken in :obj:`float64`, one block of rows at a time; sparse rows are never densified.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR), of any floating type.
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        num_clusters (int): The number of clusters, each of which needs at least one row.
    """
    check_positive('num_clusters', num_clusters)
    if x.dim() != 2:
        raise ValueError(f"'x' must have two dimensions (got shape {list(x.shape)})")
    labels = as_labels(labels, x.size(0), 'labels', lowest=0)
    if labels.numel() == 0 or int(labels.max()) >= num_clusters:
        top = int(labels.max()) if labels.numel() > 0 else None
        raise ValueError(f"'labels' must lie below 'num_clusters' = {num_clusters} (got {top})")
    empty = int((torch.bincount(labels, minlength=num_clusters) == 0).sum())
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
    means, _ = centers_and_sizes(x, labels.to(x.device), num_clusters)
    return means.to(x.dtype) if x.is_floating_point() else means


def centers_and_sizes(x: Tensor, labels: Tensor, num_clusters: int) -> tuple[Tensor, Tensor]:
    r"""Returns the means (:obj:`float64`) and the sizes of the clusters, without any check.

    Args:
        x (torch.Tensor): The rows, dense or sparse (COO, CSR).
        labels (torch.Tensor): The cluster of each row.
        num_clusters (int): The number of clusters, none of them empty.
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
    sizes = torch.bincount(labels, minlength=num_clusters)
    total /= sizes.unsqueeze(1)
    return total, sizes


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
    reach = float((x.max(dim=0).values - offset).abs().max())
    reach = max(reach, float((x.min(dim=0).values - offset).abs().max()))
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


def proximity_order(centers: Tensor) -> Tensor:
    r"""Orders points such that any run of consecutive points is a compact group.

    The points are halved recursively along a direction of large variance.

    Args:
        centers (torch.Tensor): The points, ``[m, D]``.

    Returns:
        The indices of the points in their new order, ``[m]``.
    """
    done, todo = [], [torch.arange(centers.size(0))]
    while todo:
        part = todo.pop()
        if part.numel() <= LEAF_SIZE:
            done.append(part)
            continue
        points = centers[part] - centers[part].mean(dim=0)
        direction = points[points.square().sum(dim=1).argmax()]
        for _ in range(POWER_ITERATIONS):
            direction = points.t() @ (points @ direction)
            direction = direction / direction.norm().clamp(min=1e-12)
        ranked = part[(points @ direction).argsort(stable=True)]
        half = part.numel() // 2
        todo += [ranked[half:], ranked[:half]]  # The first half is visited first.
    return torch.cat(done) if done else torch.arange(0)
