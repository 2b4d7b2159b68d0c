r"""Private centres: noisy means of rows, and which of them a row is nearest to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from sklearn.cluster import KMeans
from torch import Tensor

from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.mechanisms import (
    clip_rows,
    noisy_histogram,
    noisy_means,
    noisy_sums,
)
from torch_geometric_cgt.quantizer.prefix_tree import grow_prefix_tree
from torch_geometric_cgt.quantizer.private_plan import Plan, noise_of
from torch_geometric_cgt.quantizer.projection import multiply_rows
from torch_geometric_cgt.quantizer.shrink import shrink_means

MIN_COUNT = 10  # clusters that look smaller are given up


@dataclass(frozen=True)
class PrivateCenters:
    r"""Noisy means of rows of length one. All of it is private, but for
    :obj:`index`.
    """

    means: Tensor  # [m, d] with their noise
    noise: Tensor  # [m] its standard deviation in each coordinate
    count: Tensor  # [m] the noisy number of rows
    centers: Tensor  # [m, d] what rows are compared with
    surplus: Tensor  # [m] by how much noise makes their squared length larger
    index: Tensor  # [n] the mean that each row is in, -1 where it is in none; not private
    label: Tensor | None = None  # [m] whose rows they are means of, where labels have their own

    @classmethod
    def of(
        cls,
        rows: Tensor,
        index: Tensor,
        count: Tensor,
        sigma: float,
        shrink: bool,
        generator: torch.Generator | None,
    ) -> PrivateCenters:
        r"""Computes means from noisy sums of the rows and noisy counts.

        Rows are compared with the means as they are, whose scalar products are
        right on average, with squared lengths corrected for noise; or, where
        clusters are small and noise is large, with shrunk means.

        Args:
            rows (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
            index (torch.Tensor): The cluster of each row, ``[n]``, -1 for none.
            count (torch.Tensor): Noisy counts, ``[m]``.
            sigma (float): The noise of the sums.
            shrink (bool): Whether to compare with shrunk means.
            generator (torch.Generator, optional): The source of the noise.
        """
        sums = noisy_sums(rows, index, count.numel(), 1.0, sigma, generator)
        means = sums / count.clamp(min=1)[:, None]
        noise = sigma / count.clamp(min=1).double()
        if shrink:
            shrunk = shrink_means(means, noise)
            return cls(means, noise, count, shrunk, torch.zeros_like(noise), index)
        return cls(means, noise, count, means, rows.size(1) * noise**2, index)

    def nearest(self, rows: Tensor) -> Tensor:
        r"""The centre of each row, ``[n]``: a function of the row and of
        private numbers.
        """
        length = self.centers.square().sum(dim=1) - self.surplus
        product = multiply_rows(rows, self.centers.t())
        return (length.to(product.dtype) - 2 * product).argmin(dim=1)

    def seen(self) -> dict[str, Tensor]:
        r"""The noisy sums of rows, ``[m, d]``, before anything was done about
        their noise; their labels, ``[m]``, where they have one; and the sum that
        each row is in, ``[n]``, which whoever knows a row can tell.
        """
        sums = self.means * self.count.clamp(min=1)[:, None]
        found = {'sums': sums, 'sum_index': self.index}
        return found if self.label is None else {**found, 'sum_label': self.label}


def centers_per_label(
    rows: Tensor,
    classes: Tensor,
    plan: Plan,
    entries: Sequence[Entry],
    seed: int,
    generator: torch.Generator | None,
) -> PrivateCenters:
    r"""One tree per label; its leaves are the clusters."""
    leaves = grow_prefix_tree(
        classes,
        plan.num_starts,
        hash_rows(rows, plan.depth, seed),
        plan.leaf_min,
        noise_of(entries, 'prefix counts'),
        generator,
    )
    sigma = noise_of(entries, 'decoded sums')
    found = PrivateCenters.of(rows, leaves.index, leaves.count, sigma, False, generator)
    return replace(found, label=leaves.start)


def centers_without_labels(
    rows: Tensor,
    projection: Tensor | None,
    plan: Plan,
    entries: Sequence[Entry],
    seed: int,
    generator: torch.Generator | None,
) -> PrivateCenters:
    r"""One tree for all; k-means on its leaves, then steps of Lloyd. Clusters
    are first sought in a space of few dimensions, where there is one.
    """
    index = _first_clusters(rows, projection, plan, entries, seed, generator)
    num_clusters = plan.num_clusters
    sigma, width = (noise_of(entries, f'decoded {name}') for name in ('sums', 'counts'))
    for _ in range(plan.num_steps):
        count = noisy_histogram(index, num_clusters, width, generator)
        large = count > max(3 * width, MIN_COUNT)  # others are noise
        if not bool(large.any()):
            large = count == count.max()
        index = torch.where(large, large.cumsum(0) - 1, -1)[index]
        found = PrivateCenters.of(rows, index, count[large], sigma, True, generator)
        index, num_clusters = found.nearest(rows), found.count.numel()
    return found


def _first_clusters(
    rows: Tensor,
    projection: Tensor | None,
    plan: Plan,
    entries: Sequence[Entry],
    seed: int,
    generator: torch.Generator | None,
) -> Tensor:
    r"""Clusters of the leaves of a prefix tree."""
    sigma = noise_of(entries, 'sum of all rows')
    everything = torch.zeros(rows.size(0), dtype=torch.long)
    size = torch.tensor([rows.size(0)])
    mean = noisy_means(noisy_sums(rows, everything, 1, 1.0, sigma, generator), size, 1.0)
    mean = shrink_means(mean, sigma / size)
    if projection is not None:
        rows, mean = multiply_rows(rows, projection), multiply_rows(mean, projection)
    rows = clip_rows(rows - mean.to(rows.dtype), 1.0)  # signs say more about the middle
    leaves = grow_prefix_tree(
        everything,
        1,
        hash_rows(rows, plan.depth, seed),
        plan.leaf_min,
        noise_of(entries, 'prefix counts'),
        generator,
    )
    num_leaves = leaves.count.numel()
    sigma = noise_of(entries, 'prefix sums')
    sums = noisy_sums(rows, leaves.index, num_leaves, 1.0, sigma, generator)
    means = noisy_means(sums, leaves.count, 1.0).numpy()
    solver = KMeans(min(plan.num_clusters, num_leaves), n_init=4, random_state=seed)
    solver.fit(means, sample_weight=leaves.count.clamp(min=1).numpy())
    return torch.from_numpy(solver.predict(rows.double().numpy())).long()


def hash_rows(rows: Tensor, depth: int, seed: int) -> Tensor:
    r"""On which sides of random planes rows lie, ``[n, depth]``; the planes are
    no secret.
    """
    rng = torch.Generator().manual_seed(seed + 1)
    planes = torch.randn(rows.size(1), max(depth, 1), generator=rng)
    return multiply_rows(rows, planes)[:, :depth] > 0
