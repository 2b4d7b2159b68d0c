r"""K-means with a minimum cluster size on rows that several processes hold.

Each process keeps its rows and their labels. A cell of neighbouring clusters is improved by one
process: all processes send it their rows of the cell, and it sends the new labels back. Sums and
counts of clusters are added up over all processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.cells import MIN_CELL_CLUSTERS, refine_cells, split_into_cells
from torch_geometric_cgt.quantizer.kmeans_steps import (
    NUM_PARTS,
    SAMPLE_ROWS,
    apportion,
    assign_recursively,
    centers_and_sizes,
    inertia_of,
    k_means,
    squared_distance,
)
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import (
    BLOCK_ELEMENTS,
    rank_among_equals,
    row_blocks,
    rows_per_block,
    work_dtype,
)
from torch_geometric_cgt.utils.seeds import seeded

PARTS_PER_PROCESS = 8  # Parts of the first split, so that processes get about as many rows each.
LLOYD_STEPS = 2  # Of the first split, on all rows.
ROUND_ELEMENTS = 2**24  # Values that a process receives at a time: 64 MiB of float32.


@dataclass(frozen=True)
class SharedKMeans:
    r"""Clusters rows that several processes hold. All processes call the same methods at the
    same time. Given a seed and a number of processes, the result is always the same.

    Args:
        world (World): The processes.
        num_rows (int): The number of rows of all processes.
        num_clusters (int): The number of clusters.
        size_min (int): The least number of rows in a cluster, over all processes.
        num_candidates (int): How many nearest clusters a row may move to in one step.
        cell_size (int): The number of rows of a cell.
        max_iter (int): The largest number of steps.
        tol (float): Stop when a step lowers the inertia by less than this share of it.
        seed (int): The seed.
        device (torch.device): The device to compute on.
    """

    world: World
    num_rows: int
    num_clusters: int
    size_min: int
    num_candidates: int
    cell_size: int
    max_iter: int
    tol: float
    seed: int
    device: torch.device

    def __call__(
        self, x: Tensor, callback: Callable[[int, int], None] | None = None
    ) -> tuple[Tensor, list[float]]:
        r"""Clusters the rows.

        Args:
            x (torch.Tensor): The rows of this process, of shape :obj:`[R, num_features]`.
            callback (callable, optional): Called as :obj:`callback(step, total)` after each step.
                (default: :obj:`None`)

        Returns:
            The cluster of each row of this process, and the inertia of all rows at the start and
            after each step.
        """
        large = MIN_CELL_CLUSTERS * self.num_rows > 4 * self.cell_size * self.num_clusters
        step = self._lloyd_step if large else self._cell_step
        share = ScaledShare.of(x, self.num_rows, self.world)
        labels = self._start_lloyd(share) if large else self._start_cells(share)
        centers, sizes = centers_and_sizes(x, labels, self.num_clusters, self.world)
        path = [self._inertia(x, labels, centers)]
        for i in range(self.max_iter):
            proposal = step(share, labels, centers, sizes, i)
            new_centers, new_sizes = centers_and_sizes(x, proposal, self.num_clusters, self.world)
            inertia = self._inertia(x, proposal, new_centers)
            if inertia <= path[-1]:  # rounding may raise the inertia of a step without moves
                labels, centers, sizes = proposal, new_centers, new_sizes
            path.append(min(inertia, path[-1]))
            if callback is not None:
                callback(i + 1, self.max_iter)
            if path[-2] - path[-1] <= self.tol * path[-2]:
                break
        return labels, path

    def _inertia(self, x: Tensor, labels: Tensor, centers: Tensor) -> float:
        return sum(self.world.gather(inertia_of(x, labels, centers)))

    def _sample_centers(self, share: ScaledShare, num_centers: int) -> Tensor:
        r"""Centres of a sample of all rows, the same in all processes."""
        rng = seeded(self.seed, 'sample', self.world.rank)
        num_rows = share.x.size(0)
        count = -(-max(SAMPLE_ROWS, 64 * num_centers) * num_rows // self.num_rows)
        index = torch.randperm(num_rows, generator=rng)[:count].sort().values
        rows = self.world.concatenate(share.scaled(share.x[index]))
        rng = seeded(self.seed, 'centers')
        return self.world.by_first(lambda: k_means(rows, num_centers, rng)[0])

    def _lloyd(self, share: ScaledShare, centers: Tensor) -> tuple[Tensor, Tensor]:
        r"""The means and the sizes of the nearest rows of each centre, over all processes."""
        label, _ = share.nearest(centers)
        sizes = self.world.sum(torch.bincount(label, minlength=centers.size(0)))
        means = share.sums(label, centers.size(0), self.world) / sizes.clamp(min=1).unsqueeze(1)
        return torch.where(sizes.unsqueeze(1) > 0, means.to(centers.dtype), centers), sizes

    # Few large clusters: Lloyd's steps on the rows where they are.

    def _start_lloyd(self, share: ScaledShare) -> Tensor:
        centers = self._sample_centers(share, self.num_clusters)
        minimum = torch.full((self.num_clusters,), self.size_min)
        return assign_share(share, centers, minimum, self.world)

    def _lloyd_step(
        self, share: ScaledShare, labels: Tensor, centers: Tensor, sizes: Tensor, step: int
    ) -> Tensor:
        minimum = torch.full((self.num_clusters,), self.size_min)
        return assign_share(share, share.scaled(centers), minimum, self.world)

    # Many clusters: cells, each of them improved by one process.

    def _start_cells(self, share: ScaledShare) -> Tensor:
        r"""Splits all rows into parts, and lets one process split each of them further."""
        num_parts = max(NUM_PARTS, PARTS_PER_PROCESS * self.world.size)
        centers = self._sample_centers(share, min(num_parts, self.num_clusters))
        for _ in range(LLOYD_STEPS):
            centers, sizes = self._lloyd(share, centers)
        while int(sizes.min()) < self.size_min and centers.size(0) > 1:
            # Parts of fewer rows than a cluster needs are joined to the nearest one.
            kept = sizes >= self.size_min
            kept[sizes.argmax()] = True
            centers, sizes = self._lloyd(share, centers[kept])
        num_clusters = apportion(sizes, self.num_clusters)
        part = assign_share(share, centers, num_clusters * self.size_min, self.world)
        first = num_clusters.cumsum(0) - num_clusters

        def split(x: Tensor, part: Tensor) -> Tensor:
            labels = torch.empty_like(part)
            for number in part.unique().tolist():
                rows = (part == number).nonzero().view(-1)
                rng = seeded(self.seed, 'part', number)
                count = int(num_clusters[number])
                found = assign_recursively(x[rows], count, self.size_min, rng, self.device)
                labels[rows] = first[number] + found
            return labels

        return self._treat(share.x, part, centers.size(0), part, split)

    def _cell_step(
        self, share: ScaledShare, labels: Tensor, centers: Tensor, sizes: Tensor, step: int
    ) -> Tensor:
        r"""Draws cells of neighbouring clusters, and improves each of them."""
        rng = seeded(self.seed, 'cells', step)
        local = share.scaled(centers)
        cells, num_cells = self.world.by_first(
            lambda: split_into_cells(local, sizes, self.cell_size, MIN_CELL_CLUSTERS, rng)
        )

        def refine(x: Tensor, labels: Tensor) -> Tensor:
            return refine_cells(
                x,
                labels,
                cells,
                num_cells,
                self.size_min,
                self.num_candidates,
                self.cell_size,
                self.device,
            )

        return self._treat(share.x, cells[labels], num_cells, labels, refine)

    def _treat(
        self,
        x: Tensor,
        group: Tensor,
        num_groups: int,
        labels: Tensor,
        treat: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        r"""Sends each group of rows to one process, which gives the rows new labels.

        Args:
            x (torch.Tensor): The rows of this process.
            group (torch.Tensor): The group of each row.
            num_groups (int): The number of groups.
            labels (torch.Tensor): The present label of each row.
            treat (callable): Returns the new labels of the rows of whole groups, given these rows
                and their labels.

        Returns:
            The new label of each row of this process.
        """
        world = self.world
        sizes = world.sum(torch.bincount(group, minlength=num_groups))
        most = max(1, ROUND_ELEMENTS // max(1, x.size(1)))
        order = group.argsort(stable=True)
        ptr = torch.bincount(group, minlength=num_groups).cumsum(0).tolist()
        ptr = [0, *ptr]
        out = torch.empty_like(labels)
        for round_ in _rounds(sizes, world.size, most):
            parts = [[order[ptr[g] : ptr[g + 1]] for g in groups] for groups in round_]
            counts = [sum(rows.numel() for rows in groups) for groups in parts]
            sent = torch.cat([rows for groups in parts for rows in groups] or [order[:0]])
            taken, received = world.exchange(x[sent], counts)
            label, _ = world.exchange(labels[sent], counts)
            new = treat(taken, label) if label.numel() else label
            back, _ = world.exchange(new, received)
            out[sent] = back
        return out


def _rounds(sizes: Tensor, num_processes: int, most: int) -> Iterator[list[list[int]]]:
    r"""Yields the groups that each process treats in each round.

    Large groups are given away first, each to the process with the fewest rows so far. In a
    round, a process receives at most about :obj:`most` rows.
    """
    queues: list[list[int]] = [[] for _ in range(num_processes)]
    load = [0] * num_processes
    count = sizes.tolist()
    for group in sizes.argsort(descending=True, stable=True).tolist():
        if count[group] == 0:
            continue
        rank = load.index(min(load))
        queues[rank].append(group)
        load[rank] += count[group]
    while any(queues):
        taken: list[list[int]] = []
        for queue in queues:
            groups: list[int] = []
            while queue and (not groups or sum(count[g] for g in groups) + count[queue[0]] <= most):
                groups.append(queue.pop(0))
            taken.append(groups)
        yield taken


@dataclass(frozen=True)
class ScaledShare:
    r"""The rows of this process, and how to move and scale the rows of all processes into the
    unit box, where squares neither cancel nor overflow.

    Args:
        x (torch.Tensor): The rows, of shape :obj:`[R, num_features]`.
        offset (torch.Tensor): The mean of all rows, :obj:`float64`.
        scale (float): The factor.
    """

    x: Tensor
    offset: Tensor
    scale: float

    @classmethod
    def of(cls, x: Tensor, num_rows: int, world: World) -> ScaledShare:
        r"""Finds offset and scale.

        Args:
            x (torch.Tensor): The rows of this process.
            num_rows (int): The number of rows of all processes.
            world (World): The processes.
        """
        total = torch.zeros(x.size(1), dtype=torch.float64)
        for _, _, block in row_blocks(x, rows_per_block(2 * x.size(1))):
            total += block.sum(dim=0, dtype=torch.float64)
        offset = world.sum(total) / num_rows
        reach = 0.0
        for _, _, block in row_blocks(x, rows_per_block(2 * x.size(1))):
            reach = max(reach, float((block.double() - offset).abs().max()))
        reach = max(world.gather(reach))
        return cls(x, offset, 1.0 / reach if reach > 0.0 else 1.0)

    def scaled(self, rows: Tensor) -> Tensor:
        r"""Moves and scales rows or centres."""
        dtype = work_dtype(self.x.dtype)
        return ((rows - self.offset).mul_(self.scale)).to(dtype)

    def nearest(self, centers: Tensor) -> tuple[Tensor, Tensor]:
        r"""The nearest scaled centre of each row, and the squared distance to it."""
        label = torch.empty(self.x.size(0), dtype=torch.long)
        dist = torch.empty(self.x.size(0), dtype=centers.dtype)
        step = max(1, BLOCK_ELEMENTS // max(centers.shape))
        for start, stop, block in row_blocks(self.x, step):
            found = squared_distance(self.scaled(block), centers).min(dim=1)
            label[start:stop], dist[start:stop] = found.indices, found.values
        return label, dist

    def sums(self, label: Tensor, num_centers: int, world: World) -> Tensor:
        r"""The sum of the scaled rows of all processes with each label."""
        total = torch.zeros(num_centers, self.x.size(1), dtype=torch.float64)
        for start, stop, block in row_blocks(self.x, rows_per_block(2 * self.x.size(1))):
            total.index_add_(0, label[start:stop], self.scaled(block).double())
        return world.sum(total)


def assign_share(share: ScaledShare, centers: Tensor, size_min: Tensor, world: World) -> Tensor:
    r"""Assigns each row to its nearest centre, then moves rows into clusters that are too small,
    as :meth:`~torch_geometric_cgt.quantizer.kmeans_steps.assign_greedily` does in one process.

    For a cluster that lacks rows, each process proposes those of its rows with the least regret,
    and all processes choose from all proposals in the same way.

    Args:
        share (ScaledShare): The rows of this process.
        centers (torch.Tensor): The scaled centres, of shape :obj:`[num_clusters, num_features]`.
        size_min (torch.Tensor): The minimum size of each cluster over all processes, which all
            rows together must suffice for.
        world (World): The processes.
    """
    num_clusters = centers.size(0)
    labels, dist = share.nearest(centers)
    sizes = world.sum(torch.bincount(labels, minlength=num_clusters))
    for cluster in (sizes - size_min).argsort(stable=True).tolist():
        lacking = int(size_min[cluster] - sizes[cluster])
        if lacking <= 0:
            break
        spare = (sizes - size_min).clamp(min=0)
        rows = (spare[labels] > 0).nonzero().view(-1)
        new_dist = _distance_to(share, rows, centers[cluster : cluster + 1])
        chosen = _least((new_dist - dist[rows]).double(), labels[rows], spare, lacking)
        regret, donor = (new_dist - dist[rows]).double()[chosen], labels[rows[chosen]]

        counts = world.gather(chosen.numel())
        first = sum(counts[: world.rank])
        taken = _least(world.concatenate(regret), world.concatenate(donor), spare, lacking)
        mine = taken[(taken >= first) & (taken < first + chosen.numel())] - first
        moved = rows[chosen[mine]]
        sizes -= world.sum(torch.bincount(labels[moved], minlength=num_clusters))
        sizes[cluster] += lacking
        labels[moved] = cluster
        dist[moved] = new_dist[chosen[mine]]
    return labels


def _least(regret: Tensor, donor: Tensor, spare: Tensor, count: int) -> Tensor:
    r"""The rows of least regret, at most :obj:`spare` of each cluster that gives rows."""
    order = regret.argsort(stable=True)
    allowed = rank_among_equals(donor[order]) < spare[donor[order]]
    return order[allowed][:count]


def _distance_to(share: ScaledShare, rows: Tensor, center: Tensor) -> Tensor:
    blocks = rows.split(rows_per_block(share.x.size(1)))
    found = [squared_distance(share.scaled(share.x[block]), center).view(-1) for block in blocks]
    return torch.cat(found) if found else torch.empty(0, dtype=center.dtype)
