r"""Principal components of feature matrices, and fits of linear models."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController
from torch import Tensor

from torch_geometric_cgt.utils.checks import as_matrix, check_memory, check_positive
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import (
    BLOCK_ELEMENTS,
    row_blocks,
    rows_per_block,
    to_csr,
    work_dtype,
)
from torch_geometric_cgt.utils.scratch import Scratch

OVERSAMPLE = 16  # Extra directions, so that the last requested ones converge too.
NUM_ITERATIONS = 6


@dataclass(frozen=True)
class PrincipalComponents:
    r"""The mean and the leading principal components of the rows of a matrix.

    Args:
        mean (torch.Tensor): The mean row, ``[F]``.
        directions (torch.Tensor): The components, ``[F, d]``, in the type to compute in.
    """

    mean: Tensor
    directions: Tensor

    @classmethod
    def find(
        cls, x: Tensor, n_components: int = 64, seed: int = 0, world: World | None = None
    ) -> PrincipalComponents:
        r"""Finds the components. The arguments are those of :meth:`reduce_features`."""
        world = world or World()
        num_rows, num_features = sum(world.gather(x.size(0))), x.size(1)
        dtype = work_dtype(x.dtype)
        mean = world.sum(_row_sum(x)) / num_rows
        if num_features <= n_components:
            return cls(mean, torch.eye(num_features, dtype=dtype, device=x.device))
        width = min(n_components + OVERSAMPLE, num_features)
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(num_features, width, generator=generator, dtype=torch.float64)
        basis = torch.linalg.qr(start.to(x.device)).Q
        for _ in range(NUM_ITERATIONS):
            basis = torch.linalg.qr(world.sum(_covariance_times(x, mean, basis))).Q
        small = basis.t() @ world.sum(_covariance_times(x, mean, basis))  # [width, width]
        values, vectors = torch.linalg.eigh((small + small.t()) / 2)
        directions = basis @ vectors[:, values.argsort(descending=True)[:n_components]]
        # A direction is defined up to its sign. Fix it, so that the result does not depend on
        # LAPACK.
        largest = directions.abs().argmax(dim=0, keepdim=True)
        directions = directions * directions.gather(0, largest).sign()
        # Machines may differ in rounding, and all rows need the same directions.
        return cls(mean, world.first(directions.to(dtype)))

    def project(self, x: Tensor, scratch: Scratch | None = None) -> Tensor:
        r"""The coordinates of the rows of a matrix, dense or sparse, ``[n, d]``."""
        return _project(x, self.mean, self.directions, scratch)


def reduce_features(
    x: Tensor,
    n_components: int = 64,
    seed: int = 0,
    world: World | None = None,
    scratch: Scratch | None = None,
) -> Tensor:
    r"""Projects the rows of :obj:`x` on their leading principal components.

    The components are found by randomised subspace iteration on the covariance. Rows are centred
    implicitly and visited in blocks, so that sparse input stays sparse. The result is for
    clustering only: a codebook holds means in the original space, see
    :meth:`~torch_geometric_cgt.quantizer.cluster_means`.

    Args:
        x (torch.Tensor): The features, dense or sparse (COO, CSR), of any floating type.
        n_components (int, optional): The number of components. (default: :obj:`64`)
        seed (int, optional): The seed of the first directions. (default: :obj:`0`)
        world (World, optional): The processes, if each of them holds some of the rows.
            (default: :obj:`None`)
        scratch (Scratch, optional): Where to keep the result, if it is large.
            (default: in memory)

    Returns:
        A dense tensor of shape :obj:`[num_rows, min(n_components, num_features)]`, centred,
        :obj:`float64` for :obj:`float64` input and :obj:`float32` otherwise.
    """
    check_positive('n_components', n_components)
    x = as_matrix(x, 'x')
    num_rows, num_features = x.shape
    dtype = work_dtype(x.dtype)
    width = min(n_components + OVERSAMPLE, num_features)
    itemsize = 8 if dtype == torch.float64 else 4
    shape = (num_rows, min(n_components, num_features))
    is_mapped = scratch is not None and x.is_cpu and scratch.maps(shape, dtype)
    check_memory(
        (0 if is_mapped else math.prod(shape) * itemsize)
        + 4 * num_features * width * 8
        + 3 * BLOCK_ELEMENTS * itemsize,
        f'reducing {num_rows} x {num_features} features',
        "lower 'n_components'",
        x.device,
    )

    if x.layout != torch.strided:
        x = to_csr(x)
    return PrincipalComponents.find(x, n_components, seed, world).project(x, scratch)


def fit_linear(model: Any, z: np.ndarray, y: np.ndarray) -> None:
    r"""Fits a linear model in one thread and ignores that it did not converge.

    The steps of its solver are too small to share: on busy cores, threads that
    wait for each other take ten times as long. The parameters of the model are
    constants of this package, and checking them takes a sixth of a small fit.
    """
    one_thread = _threadpools().limit(limits=1, user_api='blas')
    unchecked = config_context(skip_parameter_validation=True)
    with warnings.catch_warnings(), one_thread, unchecked:
        warnings.simplefilter('ignore', ConvergenceWarning)
        model.fit(z, y)


@cache
def _threadpools() -> ThreadpoolController:
    r"""Finding the libraries takes as long as a small fit, so it is done once."""
    return ThreadpoolController()


def _row_sum(x: Tensor) -> Tensor:
    total = torch.zeros(x.size(1), dtype=torch.float64, device=x.device)
    for _, _, block in row_blocks(x, _block_rows(x, 0)):
        if block.layout == torch.strided:
            total += block.sum(dim=0, dtype=torch.float64)
        else:
            total.index_add_(0, block._indices()[1], block._values().double())
    return total


def _covariance_times(x: Tensor, mean: Tensor, directions: Tensor) -> Tensor:
    r"""Returns :math:`\bar{X}^\top \bar{X} D` with the centred :math:`\bar{X}` never formed."""
    out = torch.zeros_like(directions)
    local = directions.to(work_dtype(x.dtype))
    shift = mean.to(local.dtype) @ local
    for _, _, block in row_blocks(x, _block_rows(x, directions.size(1))):
        score = block @ local - shift  # [B, width]
        # Centred scores sum to zero, so the rows on the left need not be centred as well.
        out += (block.t() @ score).double()
    return out


def _project(x: Tensor, mean: Tensor, directions: Tensor, scratch: Scratch | None = None) -> Tensor:
    shape = (x.size(0), directions.size(1))
    if scratch is not None and x.is_cpu:
        out = scratch.empty(shape, directions.dtype)
    else:
        out = torch.empty(shape, dtype=directions.dtype, device=x.device)
    shift = mean.to(directions.dtype) @ directions
    for start, stop, block in row_blocks(x, _block_rows(x, directions.size(1))):
        out[start:stop] = block @ directions - shift
    return out


def _block_rows(x: Tensor, width: int) -> int:
    # The largest matrix per block: the scores of sparse rows, or the dense rows themselves.
    return rows_per_block(x.size(1) if x.layout == torch.strided else max(width, 64))
