r"""Assignment of the rows of several processes to few centres, with minimum sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.kmeans_steps import squared_distance
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import (
    BLOCK_ELEMENTS,
    rank_among_equals,
    row_blocks,
    rows_per_block,
    work_dtype,
)


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
