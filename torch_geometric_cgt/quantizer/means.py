r"""Cluster means in the original feature space, for dense and sparse matrices."""

from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.validate import as_labels, check_positive
from torch_geometric_cgt.utils.memory import check_memory
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block


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
    sizes = torch.bincount(labels, minlength=num_clusters)
    if int(sizes.min()) == 0:
        empty = int((sizes == 0).sum())
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

    labels, sizes = labels.to(x.device), sizes.to(x.device)
    total = torch.zeros(num_clusters, x.size(1), dtype=torch.float64, device=x.device)
    flat = total.view(-1)
    for start, stop, block in row_blocks(x, rows_per_block(2 * x.size(1))):
        cluster = labels[start:stop]
        if block.layout == torch.strided:
            total.index_add_(0, cluster, block.double())
        else:
            row, col = block._indices()
            flat.index_add_(0, cluster[row] * x.size(1) + col, block._values().double())
    total /= sizes.unsqueeze(1)
    return total.to(x.dtype) if x.is_floating_point() else total
