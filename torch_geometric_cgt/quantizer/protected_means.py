r"""Protected means: cluster means from which neither one member nor the size of a cluster is read.

An exact mean of 0/1 features is a fraction whose denominator is the size of the cluster, and every
value of a member is in it. Three rules remove this:

1. A value that fewer than :obj:`min_support` members have is left out. If enough members of
   neighbouring clusters have it, their mean takes its place.
2. Values far outside of the usual range of their feature are clipped.
3. Means are rounded to a grid that is coarse beside what one member contributes.

Nothing of this is a proof of privacy. ``docs/privacy.md`` says what attacks still achieve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.kmeans_steps import cluster_means
from torch_geometric_cgt.utils.checks import as_labels, check_positive
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import csr_matrix, row_blocks, rows_per_block, to_csr

NEIGHBORHOOD = 4  # clusters with consecutive numbers, which `Quantize` gives to similar ones
REACH = 2.0  # scales: values further from the usual one are clipped
MIN_ABSENT = 0.1  # the least share of zeros for which zero means that a node has no value
TIE = 1e-6  # steps: a mean this close below the middle of two grid points is rounded up


class FeatureScales(NamedTuple):
    r"""The usual range of each feature, counted over all rows."""

    center: Tensor  # [F] zero, or a power of two times an integer
    scale: Tensor  # [F] a power of two


def feature_scales(x: Tensor, world: World | None = None) -> FeatureScales:
    r"""Finds the usual range of each feature.

    If at least a tenth of the rows are zero, or if the matrix is sparse, zero means that a node
    does not have the feature. The centre is then zero, and the scale is the mean absolute value
    of the other rows: 1 for 0/1 features. Otherwise, the centre is the mean and the scale the
    standard deviation. Scales are rounded up to a power of two, and centres to a multiple of the
    scale, so that one row rarely shows in them.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR), ``[N, F]``.
        world (World, optional): The processes, if each of them holds some of the rows.
            (default: :obj:`None`)
    """
    world = world or World()
    num_rows, num_features = sum(world.gather(x.size(0))), x.size(1)
    sums = torch.zeros(4, num_features, dtype=torch.float64, device=x.device)
    count, total, reach, square = sums  # views
    for _, _, block in row_blocks(x, rows_per_block(2 * num_features)):
        if block.layout == torch.strided:
            value = block.double()
            count += value.count_nonzero(dim=0)
            total += value.sum(dim=0)
            reach += value.abs().sum(dim=0)
            square += value.square().sum(dim=0)
        else:
            col, value = block._indices()[1], block._values().double()
            count.index_add_(0, col, (value != 0).double())
            total.index_add_(0, col, value)
            reach.index_add_(0, col, value.abs())
            square.index_add_(0, col, value.square())
    world.sum(sums)
    mean = total / num_rows
    spread = (square / num_rows - mean.square()).clamp(min=0.0).sqrt()
    absent = count <= (1 - MIN_ABSENT) * num_rows
    absent |= x.layout != torch.strided
    width = torch.where(absent, reach / count.clamp(min=1), spread)
    floor = 1e-6 * mean.abs()  # a constant feature has no spread
    width = torch.where(width > floor, width, torch.where(mean != 0, mean.abs(), 1.0))
    scale = torch.exp2(torch.ceil(torch.log2(width) - TIE))
    center = torch.where(absent, torch.zeros_like(mean), torch.round(mean / scale) * scale)
    return FeatureScales(center, scale)


def protected_means(
    x: Tensor,
    labels: Any,
    num_clusters: int,
    min_support: int | None = None,
    step: float | None = None,
    world: World | None = None,
) -> Tensor:
    r"""Returns the protected mean row of each cluster, of shape :obj:`[num_clusters,
    num_features]`, in the type of :obj:`x`.

    Without :obj:`min_support` and :obj:`step`, these are the exact means of
    :meth:`~torch_geometric_cgt.quantizer.cluster_means`.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR).
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        num_clusters (int): The number of clusters, each of which needs at least one row.
        min_support (int, optional): The number of members who must have a non-zero value of a
            feature. A mean with fewer of them is replaced by the mean of its neighbourhood (four
            clusters with consecutive numbers), or by zero if fewer members of the neighbourhood
            have it as well. (default: :obj:`None`)
        step (float, optional): The distance of two points of the grid that means are rounded to,
            in scales of the feature, see :meth:`feature_scales`. It is a quarter of this for means
            of neighbourhoods, which have four times as many members. Values further than two
            scales from the centre are clipped. (default: :obj:`None`)
        world (World, optional): The processes, if each of them holds some of the rows.
            (default: :obj:`None`)
    """
    if min_support is not None:
        check_positive('min_support', min_support)
    if step is not None and not 0 < step <= 1:
        raise ValueError(f"'step' must be above 0 and at most 1 (got {step})")
    labels = as_labels(labels, x.size(0), 'labels', lowest=0).to(x.device)
    scales = None if step is None else feature_scales(x, world)
    clipped = x if scales is None else _clipped(x, scales)
    grid = None if scales is None or step is None else step * scales.scale
    means = _rounded(cluster_means(clipped, labels, num_clusters, world), grid)
    if min_support is None:
        return means
    group = neighborhood(num_clusters).to(x.device)
    num_groups, of_group = int(group.max()) + 1, group[labels]
    wide = cluster_means(clipped, of_group, num_groups, world)
    wide = _rounded(wide, None if grid is None else grid / NEIGHBORHOOD)
    wide = wide.masked_fill(value_support(x, of_group, num_groups, world) < min_support, 0.0)
    is_rare = value_support(x, labels, num_clusters, world) < min_support
    return torch.where(is_rare, wide[group], means)


def neighborhood(num_clusters: int) -> Tensor:
    r"""Returns the neighbourhood of each cluster, ``[num_clusters]``. Each has at least
    :obj:`NEIGHBORHOOD` clusters if there are as many.
    """
    last = max(0, num_clusters // NEIGHBORHOOD - 1)
    return (torch.arange(num_clusters) // NEIGHBORHOOD).clamp(max=last)


def unsupported(x: Tensor, labels: Any, num_clusters: int, min_support: int) -> Tensor:
    r"""Returns which values of a codebook must be zero, ``[num_clusters, num_features]``: those
    that fewer than :obj:`min_support` members of the neighbourhood have. A cluster is a part of
    its neighbourhood, so that fewer of its members have them as well.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR).
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        num_clusters (int): The number of clusters.
        min_support (int): The number of members who must have a non-zero value.
    """
    labels = as_labels(labels, x.size(0), 'labels', lowest=0).to(x.device)
    group = neighborhood(num_clusters).to(x.device)
    return (value_support(x, group[labels], int(group.max()) + 1) < min_support)[group]


def _rounded(means: Tensor, grid: Tensor | None) -> Tensor:
    r"""Means on a grid, one distance per feature."""
    if grid is None:
        return means
    return (torch.floor(means.double() / grid + 0.5 + TIE) * grid).to(means.dtype)


def value_support(x: Tensor, labels: Any, num_clusters: int, world: World | None = None) -> Tensor:
    r"""Returns the number of members of each cluster who have a non-zero value of each feature,
    :obj:`int64` of shape :obj:`[num_clusters, num_features]`.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR).
        labels (torch.Tensor or numpy.ndarray): The cluster of each row.
        num_clusters (int): The number of clusters.
        world (World, optional): The processes, if each of them holds some of the rows.
            (default: :obj:`None`)
    """
    labels = as_labels(labels, x.size(0), 'labels', lowest=0).to(x.device)
    num_features = x.size(1)
    count = torch.zeros(num_clusters * num_features, dtype=torch.long, device=x.device)
    for start, stop, block in row_blocks(x, rows_per_block(4 * num_features)):
        if block.layout == torch.strided:
            row, col = block.nonzero(as_tuple=True)
        else:
            row, col = block._indices()[:, block._values() != 0]
        entry = labels[start:stop][row] * num_features + col
        count.index_add_(0, entry, torch.ones_like(entry))
    return (world or World()).sum(count).view(num_clusters, num_features)


def _clipped(x: Tensor, scales: FeatureScales) -> Tensor:
    r"""The features within :obj:`REACH` scales of their centre, dense or in CSR. The centre of
    sparse features is zero, so that sparse rows stay sparse.
    """
    low = (scales.center - REACH * scales.scale).to(x.dtype)
    high = (scales.center + REACH * scales.scale).to(x.dtype)
    if x.layout == torch.strided:
        return torch.minimum(torch.maximum(x, low), high)
    x = to_csr(x)
    col = x.col_indices().long()
    value = torch.minimum(torch.maximum(x.values(), low[col]), high[col])
    return csr_matrix(x.crow_indices(), col, value, x.shape)
