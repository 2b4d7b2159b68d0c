r"""Differentially private centres: prefix trees of hashes, noisy means, and their shrinkage."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from sklearn.cluster import KMeans
from torch import Tensor

from torch_geometric_cgt.privacy.queries import Queries, noisy_means
from torch_geometric_cgt.quantizer.feature_space import multiply_rows
from torch_geometric_cgt.quantizer.private_kmeans_plan import PrivateKMeansPlan
from torch_geometric_cgt.utils.rows import clip_rows, row_norms

# Names of ledger entries.
PREFIXES, MEAN, LEAVES = 'prefix counts', 'sum of all rows', 'prefix sums'
COUNTS, SUMS = 'decoded counts', 'decoded sums'
MIN_COUNT = 10  # Clusters with a smaller noisy count are dropped.
THRESHOLDS = [i / 4 for i in range(17)]  # Candidates for shrinkage, in units of the noise.


@dataclass(frozen=True)
class PrivateCenters:
    r"""Noisy means of rows of length one. All attributes except :obj:`index` are
    differentially private.
    """

    means: Tensor  # [m, d] the noisy means
    noise: Tensor  # [m] the standard deviation of the noise in each coordinate
    count: Tensor  # [m] the noisy number of rows
    centers: Tensor  # [m, d] the means, or the shrunk means, that rows are compared with
    surplus: Tensor  # [m] the expected increase of the squared length of a centre by noise
    index: Tensor  # [n] the cluster whose sum holds the row, -1 for none; not private
    label: Tensor | None = None  # [m] the label of each cluster, where each belongs to one label

    @classmethod
    def of(
        cls,
        rows: Tensor,
        index: Tensor,
        count: Tensor,
        shrink: bool,
        queries: Queries,
    ) -> PrivateCenters:
        r"""Computes means from noisy sums of the rows and noisy counts.

        With :obj:`shrink=False`, rows are compared with the noisy means. Scalar
        products with them are unbiased, and their squared lengths are
        corrected for the noise. With :obj:`shrink=True`, for small clusters and
        much noise, rows are compared with shrunk means.

        Args:
            rows (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
            index (torch.Tensor): The cluster of each row, ``[n]``, -1 for none.
            count (torch.Tensor): Noisy counts, ``[m]``.
            shrink (bool): Whether to compare with shrunk means.
            queries (Queries): Answers with the noise of the ledger.
        """
        sigma = queries.sigma(SUMS)
        sums = queries.sums(SUMS, rows, index, count.numel())
        means = sums / count.clamp(min=1)[:, None]
        noise = sigma / count.clamp(min=1).double()
        if shrink:
            shrunk = shrink_means(means, noise)
            return cls(means, noise, count, shrunk, torch.zeros_like(noise), index)
        return cls(means, noise, count, means, rows.size(1) * noise**2, index)

    def nearest(self, rows: Tensor) -> Tensor:
        r"""Returns the nearest centre of each row, ``[n]``, which depends on the
        row itself and on private numbers only.
        """
        length = self.centers.square().sum(dim=1) - self.surplus
        product = multiply_rows(rows, self.centers.t())
        return (length.to(product.dtype) - 2 * product).argmin(dim=1)

    def sums(self) -> dict[str, Tensor]:
        r"""Returns the noisy sums of rows, :obj:`"sums"`, ``[m, d]``, before
        shrinkage; the sum that each row is in, :obj:`"sum_index"`, ``[n]``, which
        is not private; and :obj:`"sum_label"`, ``[m]``, if sums have labels.
        """
        sums = self.means * self.count.clamp(min=1)[:, None]
        found = {'sums': sums, 'sum_index': self.index}
        return found if self.label is None else {**found, 'sum_label': self.label}


def centers_per_label(
    rows: Tensor,
    classes: Tensor,
    plan: PrivateKMeansPlan,
    seed: int,
    queries: Queries,
) -> PrivateCenters:
    r"""Grows one prefix tree per label. The leaves are the clusters."""
    leaves = grow_prefix_trees(
        classes,
        plan.num_trees,
        hash_rows(rows, plan.depth, seed),
        plan.leaf_min,
        queries,
    )
    found = PrivateCenters.of(rows, leaves.index, leaves.count, False, queries)
    return replace(found, label=leaves.tree)


def centers_without_labels(
    rows: Tensor,
    projection: Tensor | None,
    plan: PrivateKMeansPlan,
    seed: int,
    queries: Queries,
) -> PrivateCenters:
    r"""Finds first clusters, and then takes Lloyd steps with noisy sums and counts.

    The first clusters are found in the space of :obj:`projection`, if there is one.
    """
    index = _first_clusters(rows, projection, plan, seed, queries)
    absent = row_norms(rows) == 0  # a removed row has no length, and is not counted
    num_clusters, width = plan.num_clusters, queries.sigma(COUNTS)
    for _ in range(plan.num_steps):
        index = index.masked_fill(absent, -1)
        count = queries.histogram(COUNTS, index, num_clusters)
        large = count > max(3 * width, MIN_COUNT)  # The others cannot be told from noise.
        if not bool(large.any()):
            large = count == count.max()
        place = torch.where(large, large.cumsum(0) - 1, -1)
        index = torch.where(index >= 0, place[index.clamp(min=0)], -1)
        found = PrivateCenters.of(rows, index, count[large], True, queries)
        index, num_clusters = found.nearest(rows), found.count.numel()
    return found


def _first_clusters(
    rows: Tensor,
    projection: Tensor | None,
    plan: PrivateKMeansPlan,
    seed: int,
    queries: Queries,
) -> Tensor:
    r"""Runs k-means on the noisy means of the leaves of one prefix tree for all rows, and
    returns the cluster of each row.
    """
    absent = row_norms(rows) == 0
    everything = torch.zeros(rows.size(0), dtype=torch.long).masked_fill(absent, -1)
    size = torch.tensor([rows.size(0)])
    mean = noisy_means(queries.sums(MEAN, rows, everything, 1), size, 1.0)
    mean = shrink_means(mean, queries.sigma(MEAN) / size)
    if projection is not None:
        rows, mean = multiply_rows(rows, projection), multiply_rows(mean, projection)
    rows = clip_rows(rows - mean.to(rows.dtype), 1.0)  # Centred rows have more diverse signs.
    leaves = grow_prefix_trees(
        everything,
        1,
        hash_rows(rows, plan.depth, seed),
        plan.leaf_min,
        queries,
    )
    num_leaves = leaves.count.numel()
    sums = queries.sums(LEAVES, rows, leaves.index, num_leaves)
    means = noisy_means(sums, leaves.count, 1.0).numpy()
    solver = KMeans(min(plan.num_clusters, num_leaves), n_init=4, random_state=seed)
    solver.fit(means, sample_weight=leaves.count.clamp(min=1).numpy())
    return torch.from_numpy(solver.predict(rows.double().numpy())).long()


def hash_rows(rows: Tensor, depth: int, seed: int) -> Tensor:
    r"""Returns on which side of random planes each row lies, ``[n, depth]``. The
    planes are public.
    """
    rng = torch.Generator().manual_seed(seed + 1)
    planes = torch.randn(rows.size(1), max(depth, 1), generator=rng)
    return multiply_rows(rows, planes)[:, :depth] > 0


@dataclass(frozen=True)
class Leaves:
    r"""The leaves of prefix trees."""

    index: Tensor  # [n] the leaf of each row, -1 where it has none; not private
    count: Tensor  # [m] the noisy number of rows of each leaf
    tree: Tensor  # [m] the tree of each leaf


def grow_prefix_trees(
    tree: Tensor,
    num_trees: int,
    bits: Tensor,
    leaf_min: float,
    queries: Queries,
) -> Leaves:
    r"""Splits rows by one bit of a hash after the other, where both halves are
    large enough.

    Rows that are close to each other agree in most bits of a
    locality-sensitive hash, so a long common prefix means that rows are close
    (Chang and Kamath, 2021). Which nodes are split depends on noisy counts
    alone. A row is counted once per level: each of the :math:`1 + depth` levels
    has sensitivity 1.

    Args:
        tree (torch.Tensor): The tree of each row, ``[n]``, e.g. its label; rows
            with -1 are left out.
        num_trees (int): The number of trees, which is public.
        bits (torch.Tensor): The hash of each row, ``[n, depth]``.
        leaf_min (float): The smallest noisy count of a leaf that results from
            a split.
        queries (Queries): Answers with the noise of the ledger, one per level.
    """
    node = tree.clone().long()  # The node at this level, -1 for rows in a leaf above it.
    leaf = torch.full_like(node, -1)
    count = queries.histogram(PREFIXES, node, num_trees)
    origin = torch.arange(num_trees)
    counts, origins, done = [], [], 0
    for level in range(bits.size(1)):
        half = torch.where(node >= 0, 2 * node + bits[:, level].long(), -1)
        halves = queries.histogram(PREFIXES, half, 2 * origin.numel()).view(-1, 2)
        split = halves.min(dim=1).values >= leaf_min
        # Nodes that stay whole are leaves.
        place = torch.where(split, -1, done + (~split).cumsum(0) - 1)
        leaf = torch.where(node >= 0, place[node.clamp(min=0)], -1).maximum(leaf)
        counts.append(count[~split])
        origins.append(origin[~split])
        done += int((~split).sum())
        # The others are replaced by their halves.
        place = torch.where(split, 2 * (split.cumsum(0) - 1), -1)
        node = torch.where(
            (node >= 0) & split[node.clamp(min=0)],
            place[node.clamp(min=0)] + bits[:, level].long(),
            -1,
        )
        count = halves[split].view(-1)
        origin = origin[split].repeat_interleave(2)
        if origin.numel() == 0:
            break
    leaf = torch.where(node >= 0, done + node, leaf)
    return Leaves(leaf, torch.cat([*counts, count]), torch.cat([*origins, origin]))


def shrink_means(means: Tensor, noise: Tensor, nonnegative: bool = False) -> Tensor:
    r"""Reduces the noise of means by soft thresholding.

    The threshold of each row is the one with the smallest unbiased estimate of
    the squared error (Stein, 1981; Donoho and Johnstone, 1995). It is zero
    where there is little noise. This uses private results only, so it has no
    privacy cost.

    Args:
        means (torch.Tensor): Means with Gaussian noise, ``[m, d]``.
        noise (torch.Tensor): The standard deviation of each row, ``[m]``.
        nonnegative (bool, optional): Whether features are known not to be
            negative, independently of the data. (default: :obj:`False`)
    """
    size, noise = means.abs(), noise[:, None].to(means.dtype)  # [m, d], [m, 1]
    best = torch.full_like(noise, float('inf'))
    threshold = torch.zeros_like(noise)
    for units in THRESHOLDS:
        limit = units * noise
        inside = (size <= limit).sum(dim=1, keepdim=True)
        risk = size.minimum(limit).square().sum(dim=1, keepdim=True) - 2 * noise**2 * inside
        threshold = torch.where(risk < best, limit, threshold)
        best = torch.minimum(best, risk)
    shrunk = means.sign() * (size - threshold).clamp(min=0)
    return shrunk.clamp(min=0) if nonnegative else shrunk
