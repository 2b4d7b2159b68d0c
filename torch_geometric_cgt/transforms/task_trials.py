r"""Trial clusterings at several task weights, and the size from which processes share rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer
from torch_geometric_cgt.quantizer.feature_space import task_space
from torch_geometric_cgt.quantizer.kmeans_steps import nearest_center
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import rows_per_block

TRIAL_ROWS = 50_000  # Enough rows to calibrate the task weight.


def sharing(world: World, num_nodes: int) -> World:
    r"""The processes, if each of them shall hold a share of the rows; with few rows, a world of
    one process.
    """
    return world if num_nodes > TRIAL_ROWS else World()


class TrialClusterings:
    r"""Clusterings to judge task weights by, which are not released. If there are many rows, a
    sample of them is clustered, and all rows go to the nearest centre.

    Args:
        z (torch.Tensor): The reduced features, ``[N, D]``, or those of the share of this process.
        probabilities (numpy.ndarray): The class probabilities of the same rows.
        moments (tuple[torch.Tensor, torch.Tensor]): The centre and the scale of all rows.
        y (torch.Tensor): The label of every row of all processes.
        num_clusters (int): The number of clusters of all rows.
        solver (callable): Returns a quantizer for a number of clusters.
        seed (int): The seed of the sample.
        rows (World): The processes that hold a share of the rows each.
    """

    def __init__(
        self,
        z: Tensor,
        probabilities: np.ndarray,
        moments: tuple[Tensor, Tensor],
        y: Tensor,
        num_clusters: int,
        solver: Callable[[int], KAnonymousQuantizer],
        seed: int,
        rows: World,
    ) -> None:
        self.z, self.probabilities, self.moments = z, probabilities, moments
        self.num_clusters, self.solver, self.rows = num_clusters, solver, rows
        self.y, self.num_rows = y, y.numel()
        self.sample: tuple[Tensor, np.ndarray] | None = None
        if self.num_rows > TRIAL_ROWS:
            rng = torch.Generator().manual_seed(seed)
            index = torch.randperm(self.num_rows, generator=rng)[:TRIAL_ROWS]
            own = rows.share(self.num_rows)
            if rows.size > 1:
                index = index.sort().values  # each process adds a block of rows
            self.y = y[index]
            mine = index[(index >= own.start) & (index < own.stop)] - own.start
            chosen = torch.from_numpy(probabilities)[mine]
            self.sample = rows.concatenate(z[mine]), rows.concatenate(chosen).numpy()
            self.num_clusters = max(1, self.num_clusters * TRIAL_ROWS // self.num_rows)

    def find(self, weight: float) -> Tensor:
        r"""The cluster of each row; with shares of rows, the centres."""
        solver = self.solver(self.num_clusters)
        if self.sample is None:
            space = task_space(self.z, self.probabilities, weight, self.moments)
            return torch.from_numpy(solver.fit(space, self.y).labels_)
        solver.fit(task_space(*self.sample, weight, self.moments), self.y)
        centers = torch.from_numpy(solver.cluster_centers_)
        return centers if self.rows.size > 1 else self.assign(weight, centers)

    def assign(self, weight: float, centers: Tensor) -> Tensor:
        r"""The nearest centre of each row of this process, without those of no row at all."""
        step = rows_per_block(max(centers.shape))
        nearest = torch.cat(
            [
                nearest_center(task_space(z, probabilities, weight, self.moments), centers)
                for z, probabilities in zip(
                    self.z.split(step), _blocks(self.probabilities, step), strict=True
                )
            ]
        )
        counts = self.rows.sum(torch.bincount(nearest, minlength=centers.size(0)))
        return ((counts > 0).cumsum(0) - 1)[nearest]


def _blocks(values: np.ndarray, step: int) -> list[np.ndarray]:
    return [values[start : start + step] for start in range(0, len(values), step)]
