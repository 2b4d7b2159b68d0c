r"""Squared Euclidean distances between rows and centres, and the inertia they add up to."""

import torch
from torch import Tensor

from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, rows_per_block


def standardize(x: Tensor) -> tuple[Tensor, Tensor, float]:
    r"""Moves and scales rows into the unit box, where squares neither cancel nor overflow.

    Returns:
        The new rows, and the offset (:obj:`float64`) and the scale that lead to them.
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
    r"""Returns the nearest centre of each row. Sizes are whatever they become: this is for
    trials, and never for what is released.
    """
    offset = centers.mean(dim=0)
    step = max(1, BLOCK_ELEMENTS // centers.size(0))
    return torch.cat(
        [squared_distance(rows - offset, centers - offset).argmin(dim=1) for rows in x.split(step)]
    )


def centers_of(x: Tensor, labels: Tensor, num_clusters: int) -> tuple[Tensor, Tensor]:
    r"""Returns the means (:obj:`float64`) and the sizes of the clusters.

    Args:
        x (torch.Tensor): The dense rows.
        labels (torch.Tensor): The cluster of each row.
        num_clusters (int): The number of clusters, none of them empty.
    """
    total = torch.zeros(num_clusters, x.size(1), dtype=torch.float64, device=x.device)
    step = rows_per_block(x.size(1))
    for start in range(0, x.size(0), step):
        rows = slice(start, start + step)
        total.index_add_(0, labels[rows], x[rows].double())
    sizes = torch.bincount(labels, minlength=num_clusters)
    return total / sizes.unsqueeze(1), sizes


def inertia_of(x: Tensor, labels: Tensor, centers: Tensor) -> float:
    r"""Returns the sum of squared distances of the rows to the centres of their own clusters.

    It is computed from differences in :obj:`float64`, so that two assignments can be compared
    without an error that is larger than what they differ by.
    """
    total = 0.0
    step = rows_per_block(x.size(1))
    for start in range(0, x.size(0), step):
        rows = slice(start, start + step)
        diff = x[rows].double() - centers[labels[rows]]
        total += float(diff.square_().sum())
    return total


def candidate_costs(
    x: Tensor, labels: Tensor, centers: Tensor, num_candidates: int, sizes: Tensor, correct: bool
) -> tuple[Tensor, Tensor]:
    r"""Returns clusters and costs of each row's choices, its present cluster first.

    With :obj:`correct=False` the cost is the squared distance (the step of Lloyd). With
    :obj:`correct=True` it is what inertia really changes by when one row moves (the rule of
    Hartigan): a row pulls its own centre towards itself, so leaving a cluster of :math:`s` rows
    saves :math:`s / (s - 1)` times its squared distance and entering one costs
    :math:`s / (s + 1)` times it. At the sizes that k-anonymity asks for this matters.

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
