r"""Give every cluster at least l distinct labels, by exchanging rows and, where needed, merging."""

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.distance import centers_of, squared_distance
from torch_geometric_cgt.quantizer.homogeneity import label_counts
from torch_geometric_cgt.utils.rows import BLOCK_ELEMENTS, work_dtype

NUM_NEIGHBORS = 16  # Clusters that are asked for a row before clusters are merged.


def diversify(
    x: Tensor, labels: Tensor, y: Tensor, num_clusters: int, size_min: int, min_labels: int
) -> tuple[Tensor, int]:
    r"""Returns an assignment in which every cluster has :obj:`min_labels` distinct labels.

    A cluster that has too few fetches the rows it lacks from near clusters that can spare them,
    and gives rows back where those would become too small. A cluster that cannot be helped in this
    way is merged with the nearest one. Sizes never fall below :obj:`size_min`.

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

    state = _State(x, labels.clone(), y, counts, size_min, min_labels)
    for cluster, near in zip(lacking, state.neighbors(torch.tensor(lacking)), strict=True):
        state.help(cluster, near)
    state.merge_all()
    _, labels = state.labels.unique(return_inverse=True)
    return labels, int(labels.max()) + 1


class _State:
    r"""Clusters while rows move between them: members, label counts, and centres at the start."""

    def __init__(
        self, x: Tensor, labels: Tensor, y: Tensor, counts: Tensor, size_min: int, min_labels: int
    ) -> None:
        self.x, self.labels, self.y, self.counts = x, labels, y, counts
        self.size_min, self.min_labels = size_min, min_labels
        centers, self.sizes = centers_of(x, labels, counts.size(0))
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

    def help(self, cluster: int, near: Tensor) -> None:
        r"""Fetches rows with new labels until there are enough of them, or none can be had."""
        while self.distinct(cluster) < self.min_labels and near.numel() > 0:
            if not self.fetch(cluster, near):
                return

    def fetch(self, cluster: int, near: Tensor) -> bool:
        r"""Moves the cheapest row with a new label into the cluster, if there is one."""
        rows = torch.cat([self.members[c] for c in near.tolist()])
        source, label = self.labels[rows], self.y[rows]
        new = (label >= 0) & (self.counts[cluster, label] == 0)
        # The giver must stay diverse; one that is itself lacking must not lose a label either.
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
            back: int | None = None
            if int(self.sizes[giver]) <= self.size_min:
                back = self.give_back(cluster, giver)
                if back is None:
                    continue
            self.move(int(rows[choice]), cluster)
            if back is not None:
                self.move(back, giver)
            return True
        return False

    def give_back(self, cluster: int, giver: int) -> int | None:
        r"""The row that the cluster misses least: unlabelled, or with a label that it has twice."""
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
        r"""Merges what still lacks labels with its nearest cluster, again and again."""
        while True:
            lacking = self.alive & ((self.counts > 0).sum(dim=1) < self.min_labels)
            if not bool(lacking.any()):
                return
            for cluster in lacking.nonzero().view(-1).tolist():
                if bool(self.alive[cluster]) and self.distinct(cluster) < self.min_labels:
                    self.merge(cluster)

    def merge(self, cluster: int) -> None:
        r"""Joins the cluster to its nearest neighbour that has a label it lacks, if any has."""
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
