r"""Noisy counts, sums and means of rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_geometric_cgt.privacy.noise_sampling import discrete_gaussian

GRID_BITS = 20  # the noise of sums has a standard deviation of 2^20 grid steps
BLOCK_ELEMENTS = 1 << 24  # elements of dense rows per block
MARGIN = 1 - 1e-9  # for the rounding of norms


def noisy_histogram(
    index: Tensor, num_bins: int, sigma: float, generator: torch.Generator | None = None
) -> Tensor:
    r"""Counts rows per bin and adds discrete Gaussian noise, ``[num_bins]``.

    Removing one row changes one count by one. The sensitivity is therefore 1,
    and the noise of the entry is
    :class:`~torch_geometric_cgt.privacy.DiscreteGaussian`. Noisy counts can be
    negative.

    Args:
        index (torch.Tensor): The bin of each row, ``[n]``. Rows with a negative
            bin are not counted.
        num_bins (int): The number of bins, which must not depend on the data.
        sigma (float): The width of the noise.
        generator (torch.Generator, optional): The source of random bits, see
            :meth:`~torch_geometric_cgt.privacy.noise_sampling.discrete_gaussian`.
            (default: :obj:`None`)
    """
    index = _check_index(index, num_bins)
    counts = torch.bincount(index[index >= 0], minlength=num_bins)
    return counts + discrete_gaussian(num_bins, sigma, generator)


def clip_rows(x: Tensor, bound: float) -> Tensor:
    r"""Scales rows down to a norm of at most :obj:`bound`.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
        bound (float): The largest :math:`L_2` norm.
    """
    scale = (bound / row_norms(x).clamp(min=1e-300)).clamp(max=1.0)
    return scale_rows(x, scale)


def noisy_sums(
    x: Tensor,
    index: Tensor,
    num_bins: int,
    bound: float,
    sigma: float,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Sums clipped rows per bin and adds noise, ``[num_bins, d]``.

    Removing one row moves one sum by at most :obj:`bound`. This is the
    sensitivity, and the noise of the entry is
    :class:`~torch_geometric_cgt.privacy.Gaussian` with :obj:`sigma`.

    Rows are rounded towards zero to a grid of :math:`\sigma / 2^{20}`, which
    increases no norm. All later steps are exact: they are sums of integers
    with discrete Gaussian noise. Up to ten standard deviations, the
    probabilities of this noise differ from those of a rounded Gaussian by a
    factor of at most :math:`\exp(100 / 2^{43})` per coordinate. :math:`10^5`
    coordinates therefore add less than :math:`3 \cdot 10^{-6}` to
    :math:`\epsilon` and :math:`10^{-17}` to :math:`\delta`, which is less than
    the accountant rounds up. A margin of :math:`10^{-9}` covers the
    floating-point rounding of norms.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
        index (torch.Tensor): The bin of each row, ``[n]``. Rows with a negative
            bin are ignored.
        num_bins (int): The number of bins. It must not depend on the data
            except through private results.
        bound (float): The largest :math:`L_2` norm of a row.
        sigma (float): The standard deviation of the noise.
        generator (torch.Generator, optional): The source of random bits.
            (default: :obj:`None`)
    """
    index = _check_index(index, num_bins)
    if x.dim() != 2 or x.size(0) != index.numel():
        raise ValueError(
            f"'x' must be [n, d] with a row for each of the {index.numel()} bins "
            f'(got {list(x.shape)})'
        )
    for name, value in (('bound', bound), ('sigma', sigma)):
        if not 0 < value < math.inf:
            raise ValueError(f"'{name}' must be positive and finite (got {value!r})")
    norms = row_norms(x)
    if not bool(norms.isfinite().all()):
        raise ValueError("'x' must be finite (got NaN, infinite or too large values)")
    grid = sigma / (1 << GRID_BITS)
    if x.size(0) * bound / grid >= 1 << 61:
        raise ValueError(f"'sigma' is too small compared with 'bound' (got {sigma} and {bound})")
    scale = (bound / norms.clamp(min=1e-300)).clamp(max=1.0) * MARGIN / grid
    total = torch.zeros(num_bins, x.size(1), dtype=torch.long)
    if x.layout != torch.strided:
        x = x.to_sparse_coo().coalesce()
        row, column = x.indices()
        steps = (x.values().double() * scale[row]).trunc().long()
        used = index[row] >= 0
        cell = index[row[used]] * x.size(1) + column[used]
        total.view(-1).index_add_(0, cell, steps[used])
    else:
        block = max(1, BLOCK_ELEMENTS // x.size(1))
        for part in torch.arange(x.size(0)).split(block):
            part = part[index[part] >= 0]
            steps = (x[part].double() * scale[part, None]).trunc().long()
            total.index_add_(0, index[part], steps)
    noise = discrete_gaussian(total.numel(), float(1 << GRID_BITS), generator)
    return (total + noise.view_as(total)).double() * grid


def noisy_means(sums: Tensor, counts: Tensor, bound: float) -> Tensor:
    r"""Means from noisy sums and noisy counts, clipped to :obj:`bound` like the
    rows. Arithmetic on private results costs nothing.

    Args:
        sums (torch.Tensor): Noisy sums, ``[m, d]``.
        counts (torch.Tensor): Noisy counts, ``[m]``.
        bound (float): The largest :math:`L_2` norm of a row.
    """
    return clip_rows(sums / counts.clamp(min=1)[:, None].to(sums.dtype), bound)


def noisy_median(
    values: Tensor,
    low: float,
    high: float,
    num_steps: int,
    sigma: float,
    generator: torch.Generator | None = None,
) -> float:
    r"""Approximates a median by bisection with noisy counts.

    Each step counts the values below the middle of the range, with sensitivity
    1 and discrete Gaussian noise. The :obj:`count` of its entry is the number of
    steps. The number of values is public.

    Args:
        values (torch.Tensor): The values, ``[n]``.
        low (float): The lower end of the search range.
        high (float): The upper end of the search range.
        num_steps (int): The number of steps. Each step halves the range.
        sigma (float): The width of the noise.
        generator (torch.Generator, optional): The source of random bits.
            (default: :obj:`None`)
    """
    for _ in range(num_steps):
        middle = (low + high) / 2
        below = int((values < middle).sum()) + int(discrete_gaussian(1, sigma, generator))
        low, high = (middle, high) if 2 * below < values.numel() else (low, middle)
    return (low + high) / 2


def row_norms(x: Tensor) -> Tensor:
    r"""The :math:`L_2` norm of each row, ``[n]``, :obj:`float64`."""
    if x.layout == torch.strided:
        blocks = x.split(max(1, BLOCK_ELEMENTS // max(1, x.size(1))))
        return torch.cat([block.double().norm(dim=1) for block in blocks])
    x = x.to_sparse_coo().coalesce()
    square = torch.zeros(x.size(0), dtype=torch.double)
    return square.index_add_(0, x.indices()[0], x.values().double().square()).sqrt()


def scale_rows(x: Tensor, scale: Tensor) -> Tensor:
    r"""Multiplies each dense or sparse row, ``[n, d]``, by a number, ``[n]``."""
    if x.layout == torch.strided:
        return x * scale[:, None].to(x.dtype)
    x = x.to_sparse_coo().coalesce()
    values = x.values() * scale[x.indices()[0]].to(x.dtype)
    return torch.sparse_coo_tensor(
        x.indices(), values, x.shape, is_coalesced=True, check_invariants=False
    )


def _check_index(index: Tensor, num_bins: int) -> Tensor:
    if num_bins < 1:
        raise ValueError(f"'num_bins' must be at least 1 (got {num_bins})")
    if index.dim() != 1 or index.is_floating_point():
        raise ValueError(f"'index' must be a vector of integers (got shape {list(index.shape)})")
    index = index.long()
    if index.numel() > 0 and int(index.max()) >= num_bins:
        raise ValueError(f"'index' must lie below 'num_bins' = {num_bins} (got {int(index.max())})")
    return index
