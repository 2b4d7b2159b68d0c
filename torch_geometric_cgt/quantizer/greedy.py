r"""A quick assignment that respects the minimum size, where a flow would be too large."""

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.distance import squared_distance
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS


def greedy_assign(x: Tensor, centers: Tensor, size_min: Tensor) -> Tensor:
    r"""Assigns each row to its nearest centre, then lets small clusters fetch the rows they lack.

    A small cluster takes the rows with the least regret (the distance to it minus the distance to
    where they are), never more from a cluster than that one can spare. It is meant for few large
    clusters, where hardly any cluster falls short.

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
        allowed = _rank_in_group(labels[rows[order]]) < spare[labels[rows[order]]]
        chosen = order[allowed][:lacking]
        moved = rows[chosen]
        sizes -= torch.bincount(labels[moved], minlength=num_clusters)
        sizes[cluster] += lacking
        labels[moved] = cluster
        dist[moved] = new_dist[chosen]
    return labels


def _rank_in_group(group: Tensor) -> Tensor:
    r"""Returns how many earlier entries have the same value, for each entry."""
    order = group.argsort(stable=True)
    sizes = torch.bincount(group)
    first = sizes.cumsum(0) - sizes
    position = torch.arange(group.numel(), device=group.device)
    rank = torch.empty_like(group)
    rank[order] = position - first[group[order]]
    return rank
