r"""Recursive splits: a first assignment of rows, and ever new cells of neighbouring clusters."""

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer.distance import squared_distance, standardize
from torch_geometric_cgt.quantizer.greedy import greedy_assign
from torch_geometric_cgt.utils.rows import work_dtype

NUM_PARTS = 32  # Parts per split: few enough to be quick, enough to follow the shape of the data.
SAMPLE_ROWS = 256 * NUM_PARTS  # Enough rows to place the parts; all rows are then assigned.


def split_rows(
    x: Tensor, num_clusters: int, size_min: int, generator: torch.Generator, device: torch.device
) -> Tensor:
    r"""Assigns rows to :obj:`num_clusters` clusters of at least :obj:`size_min` rows each.

    Rows are split into a few parts by k-means, and parts are split again. Each part takes a whole
    number of clusters, in proportion to its rows, and the rows that those clusters need.

    Args:
        x (torch.Tensor): The rows, with :obj:`x.size(0) >= num_clusters * size_min`.
        num_clusters (int): The number of clusters.
        size_min (int): The minimum size.
        generator (torch.Generator): The source of randomness, on the CPU.
        device (torch.device): Where to compute.
    """
    labels = torch.empty(x.size(0), dtype=torch.long)
    stack = [(torch.arange(x.size(0)), num_clusters)]
    done = 0
    while stack:
        rows, m = stack.pop()
        if m == 1:
            labels[rows] = done
            done += 1
            continue
        z, _, _ = standardize(x[rows].to(device, work_dtype(x.dtype)))  # [R, F]
        centers, sizes = _k_means(z, min(NUM_PARTS, m), generator)
        share = _apportion(sizes, m)
        part = greedy_assign(z, centers, share * size_min).cpu()
        order = part.argsort(stable=True)
        counts = torch.bincount(part, minlength=centers.size(0)).tolist()
        stack.extend(zip(rows[order].split(counts), share.tolist(), strict=True))
    return labels


def _k_means(
    x: Tensor, num_clusters: int, generator: torch.Generator, max_iter: int = 6
) -> tuple[Tensor, Tensor]:
    r"""Plain k-means on a sample (k-means++ start), for centres and sizes only."""
    if x.size(0) > SAMPLE_ROWS:
        x = x[torch.randint(x.size(0), (SAMPLE_ROWS,), generator=generator).to(x.device)]
    centers = x[torch.randint(x.size(0), (1,), generator=generator).to(x.device)]
    dist = squared_distance(x, centers).view(-1)
    for _ in range(num_clusters - 1):
        draw = torch.rand(1, generator=generator, dtype=torch.float64).to(x.device)
        mass = dist.double().cumsum(0)
        pick = torch.searchsorted(mass, draw * mass[-1]).clamp(max=x.size(0) - 1)
        centers = torch.cat([centers, x[pick]])
        dist = torch.minimum(dist, squared_distance(x, x[pick]).view(-1))
    for _ in range(max_iter):
        labels = squared_distance(x, centers).argmin(dim=1)
        sizes = torch.bincount(labels, minlength=num_clusters)
        total = torch.zeros_like(centers).index_add_(0, labels, x)
        centers = torch.where(
            (sizes > 0).unsqueeze(1), total / sizes.clamp(min=1).unsqueeze(1), centers
        )
    return centers, sizes


def _apportion(sizes: Tensor, total: int) -> Tensor:
    r"""Shares out :obj:`total` clusters in proportion to :obj:`sizes`, at least one to each."""
    quota = sizes.double() / sizes.sum() * (total - sizes.numel())
    share = quota.floor().long()
    left = total - sizes.numel() - int(share.sum())
    share[(quota - share).argsort(descending=True, stable=True)[:left]] += 1
    return share + 1


def split_clusters(
    centers: Tensor, sizes: Tensor, cell_size: int, min_clusters: int, generator: torch.Generator
) -> tuple[Tensor, int]:
    r"""Groups clusters into cells of neighbours with about :obj:`cell_size` rows each.

    Each cut is across the line through two random centres, at a random place near the middle. The
    next call cuts elsewhere, so that clusters on two sides of a boundary soon share a cell.

    Args:
        centers (torch.Tensor): The centres, of shape :obj:`[num_clusters, num_features]`.
        sizes (torch.Tensor): The number of rows in each cluster.
        cell_size (int): The largest number of rows in a cell.
        min_clusters (int): Cells of this many clusters are not cut, whatever their rows.
        generator (torch.Generator): The source of randomness, on the CPU.

    Returns:
        The cell of each cluster, and the number of cells.
    """
    cells = torch.empty(centers.size(0), dtype=torch.long)
    stack = [torch.arange(centers.size(0))]
    done = 0
    while stack:
        part = stack.pop()
        if int(sizes[part].sum()) <= cell_size or part.numel() < 2 * min_clusters:
            cells[part] = done
            done += 1
            continue
        local = centers[part]
        pair = torch.randint(part.numel(), (2,), generator=generator)
        share = 0.35 + 0.3 * float(torch.rand(1, generator=generator))
        cut = min(max(round(share * part.numel()), min_clusters), part.numel() - min_clusters)
        order = (local @ (local[pair[0]] - local[pair[1]])).argsort(stable=True)
        stack.append(part[order[:cut]])
        stack.append(part[order[cut:]])
    return cells, done
