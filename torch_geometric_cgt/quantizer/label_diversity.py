r"""Label diversity: measures of the labels in a cluster, and clusters with at least l of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.kmeans_steps import centers_and_sizes, squared_distance
from torch_geometric_cgt.utils.checks import as_labels, check_positive
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, work_dtype

NUM_NEIGHBORS = 16  # Clusters that are searched for a row before clusters are merged.


class LabelHomogeneity(NamedTuple):
    r"""How the labels are spread over the clusters.

    Args:
        distinct (torch.Tensor): The number of distinct labels in each cluster (distinct
            l-diversity holds for the least of them).
        t_closeness (torch.Tensor): The total variation distance, between 0 and 1, of the labels
            in each cluster to the labels of all rows (t-closeness holds for the largest of them);
            0 where a cluster has no labelled row.
        num_homogeneous (int): The number of clusters with one label only: whoever knows the
            cluster of a labelled row there knows its label.
    """

    distinct: Tensor
    t_closeness: Tensor
    num_homogeneous: int


def label_homogeneity(labels: Any, y: Any, num_classes: int | None = None) -> LabelHomogeneity:
    r"""Measures how much each cluster reveals about the labels of its members. A minimum size
    does not hide these.

    Args:
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        y (torch.Tensor or numpy.ndarray): The label of each row, -1 where it has none. Rows
            without a label are not counted.
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


def diversify(
    x: Tensor, labels: Tensor, y: Tensor, num_clusters: int, size_min: int, min_labels: int
) -> tuple[Tensor, int]:
    r"""Returns an assignment in which every cluster has :obj:`min_labels` distinct labels.

    A cluster with too few labels takes rows with other labels from near clusters, and gives a row
    in exchange where such a cluster would become too small. Where no exchange is possible, the
    cluster is merged with the nearest one. Sizes never fall below :obj:`size_min`.

    Args:
        x (torch.Tensor): The rows, of shape :obj:`[num_rows, num_features]`.
        labels (torch.Tensor): The cluster of each row, each of at least :obj:`size_min` rows.
        y (torch.Tensor): The label of each row, -1 where it has none (which counts as no label).
        num_clusters (int): The number of clusters.
        size_min (int): The minimum size.
        min_labels (int): The least number of distinct labels; :obj:`y` must have as many.

    Returns:
        The new assignment and its number of clusters.
    """
    present, y_index = y.clamp(min=0).unique(return_inverse=True)
    y = torch.where(y >= 0, y_index, -1)
    counts = label_counts(labels, y, num_clusters, present.numel())
    lacking = ((counts > 0).sum(dim=1) < min_labels).nonzero().view(-1).tolist()
    if not lacking:
        return labels, num_clusters

    clusters = _Clusters(x, labels.clone(), y, counts, size_min, min_labels)
    for cluster, near in zip(lacking, clusters.neighbors(torch.tensor(lacking)), strict=True):
        clusters.add_labels(cluster, near)
    clusters.merge_all()
    _, labels = clusters.labels.unique(return_inverse=True)
    return labels, int(labels.max()) + 1


class _Clusters:
    r"""Clusters while rows move between them: members, label counts, and the initial centres."""

    def __init__(
        self, x: Tensor, labels: Tensor, y: Tensor, counts: Tensor, size_min: int, min_labels: int
    ) -> None:
        self.x, self.labels, self.y, self.counts = x, labels, y, counts
        self.size_min, self.min_labels = size_min, min_labels
        centers, self.sizes = centers_and_sizes(x, labels, counts.size(0))
        self.offset = centers.mean(dim=0)
        self.centers = (centers - self.offset).to(work_dtype(x.dtype))
        order = labels.argsort(stable=True)
        self.members = list(order.split(self.sizes.tolist()))
        self.alive = torch.ones(counts.size(0), dtype=torch.bool)

    def distinct(self, cluster: int) -> int:
        return int((self.counts[cluster] > 0).sum())

    def distance(self, rows: Tensor, clusters: Tensor) -> Tensor:
        r"""Squared distances of :obj:`rows` to the centres of :obj:`clusters`, row by row."""
        z = self.x[rows].double() - self.offset
        return (z - self.centers[clusters]).square().sum(dim=-1)

    def neighbors(self, clusters: Tensor) -> Tensor:
        r"""The nearest other clusters that still exist, nearest first, for each cluster."""
        count = min(NUM_NEIGHBORS, int(self.alive.sum()) - 1)
        out = []
        for block in clusters.split(max(1, BLOCK_ELEMENTS // self.centers.size(0))):
            dist = squared_distance(self.centers[block], self.centers)
            dist[:, ~self.alive] = float('inf')
            dist.scatter_(1, block.unsqueeze(1), float('inf'))
            out.append(dist.topk(count, largest=False).indices)
        return torch.cat(out)

    def add_labels(self, cluster: int, near: Tensor) -> None:
        r"""Takes rows with new labels from near clusters until there are enough, or no more."""
        while self.distinct(cluster) < self.min_labels and near.numel() > 0:
            if not self.take_row(cluster, near):
                return

    def take_row(self, cluster: int, near: Tensor) -> bool:
        r"""Moves the cheapest row with a new label into the cluster, if there is one."""
        rows = torch.cat([self.members[c] for c in near.tolist()])
        source, label = self.labels[rows], self.y[rows]
        new = (label >= 0) & (self.counts[cluster, label] == 0)
        # The source may lose a label only if it has more of them than it needs.
        distinct = (self.counts[near] > 0).sum(dim=1)
        position = torch.zeros(self.counts.size(0), dtype=torch.long)
        position[near] = torch.arange(near.numel())
        spare = (self.counts[source, label] > 1) | (distinct[position[source]] > self.min_labels)
        keep = new & spare
        rows, source = rows[keep], source[keep]
        if rows.numel() == 0:
            return False
        target = torch.full_like(source, cluster)
        regret = self.distance(rows, target) - self.distance(rows, source)
        for choice in regret.argsort(stable=True).tolist():
            giver = int(source[choice])
            exchange: int | None = None
            if int(self.sizes[giver]) <= self.size_min:
                exchange = self.row_to_exchange(cluster, giver)
                if exchange is None:
                    continue
            self.move(int(rows[choice]), cluster)
            if exchange is not None:
                self.move(exchange, giver)
            return True
        return False

    def row_to_exchange(self, cluster: int, giver: int) -> int | None:
        r"""The cheapest row to give: unlabelled, or with a label that the cluster has twice."""
        rows = self.members[cluster]
        label = self.y[rows]
        rows = rows[(label < 0) | (self.counts[cluster, label] > 1)]
        if rows.numel() == 0:
            return None
        to_giver = self.distance(rows, torch.full_like(rows, giver))
        regret = to_giver - self.distance(rows, torch.full_like(rows, cluster))
        return int(rows[regret.argmin()])

    def move(self, row: int, cluster: int) -> None:
        old, label = int(self.labels[row]), int(self.y[row])
        self.members[old] = self.members[old][self.members[old] != row]
        self.members[cluster] = torch.cat([self.members[cluster], torch.tensor([row])])
        self.labels[row] = cluster
        self.sizes[old] -= 1
        self.sizes[cluster] += 1
        if label >= 0:
            self.counts[old, label] -= 1
            self.counts[cluster, label] += 1

    def merge_all(self) -> None:
        r"""Merges clusters with too few labels into near ones until none is left."""
        while True:
            lacking = self.alive & ((self.counts > 0).sum(dim=1) < self.min_labels)
            if not bool(lacking.any()):
                return
            for cluster in lacking.nonzero().view(-1).tolist():
                if bool(self.alive[cluster]) and self.distinct(cluster) < self.min_labels:
                    self.merge(cluster)

    def merge(self, cluster: int) -> None:
        r"""Merges the cluster into its nearest neighbour that adds a label, if any does."""
        near = self.neighbors(torch.tensor([cluster]))[0]
        adds = (self.counts[near] > 0) & (self.counts[cluster] == 0)
        useful = adds.any(dim=1).nonzero().view(-1)
        target = int(near[useful[0]]) if useful.numel() > 0 else int(near[0])
        rows = self.members[cluster]
        a, b = float(self.sizes[cluster]), float(self.sizes[target])
        self.centers[target] = (a * self.centers[cluster] + b * self.centers[target]) / (a + b)
        self.members[target] = torch.cat([self.members[target], rows])
        self.labels[rows] = target
        self.counts[target] += self.counts[cluster]
        self.sizes[target] += self.sizes[cluster]
        self.counts[cluster] = 0
        self.alive[cluster] = False
