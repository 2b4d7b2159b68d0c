r"""What a minimum size does not hide: how much a cluster tells about the labels of its members."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.validate import as_labels, check_positive


class LabelHomogeneity(NamedTuple):
    r"""How the labels are spread over the clusters.

    Args:
        distinct (torch.Tensor): The number of distinct labels in each cluster (distinct
            l-diversity holds for the least of them).
        t_closeness (torch.Tensor): The total variation distance, between 0 and 1, of the labels
            in each cluster to the labels of all rows (t-closeness holds for the largest of them);
            0 where a cluster has no labelled row.
        num_homogeneous (int): The number of clusters with one label only, where knowing the
            cluster of a labelled row is knowing its label.
    """

    distinct: Tensor
    t_closeness: Tensor
    num_homogeneous: int


def label_homogeneity(labels: Any, y: Any, num_classes: int | None = None) -> LabelHomogeneity:
    r"""Measures how much each cluster tells about the labels of its members.

    Args:
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        y (torch.Tensor or numpy.ndarray): The label of each row, -1 where it has none. Rows
            without a label count neither for nor against a cluster.
        num_classes (int, optional): The number of classes. If :obj:`None`, it is inferred.
            (default: :obj:`None`)
    """
    clusters = as_labels(labels, len(labels), 'labels', lowest=0)
    classes = as_labels(y, clusters.numel(), 'y')
    if clusters.numel() == 0:
        raise ValueError("'labels' must not be empty (got 0 rows)")
    highest = int(classes.max())
    if num_classes is None:
        num_classes = max(highest + 1, 1)
    check_positive('num_classes', num_classes)
    if highest >= num_classes:
        raise ValueError(f"'y' must lie below 'num_classes' = {num_classes} (got {highest})")

    counts = label_counts(clusters, classes, int(clusters.max()) + 1, num_classes)
    distinct = (counts > 0).sum(dim=1)
    share = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)  # [m, C]
    overall = counts.sum(dim=0) / counts.sum().clamp(min=1)  # [C]
    t_closeness = (share - overall).abs().sum(dim=1) / 2
    t_closeness[distinct == 0] = 0.0
    return LabelHomogeneity(distinct, t_closeness, int((distinct == 1).sum()))


def label_counts(clusters: Tensor, classes: Tensor, num_clusters: int, num_classes: int) -> Tensor:
    r"""Returns how often each label occurs in each cluster, :obj:`[num_clusters, num_classes]`."""
    known = classes >= 0
    flat = clusters[known] * num_classes + classes[known]
    counts = torch.bincount(flat, minlength=num_clusters * num_classes)
    return counts.view(num_clusters, num_classes)
