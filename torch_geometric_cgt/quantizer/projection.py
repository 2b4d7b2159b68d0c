r"""A projection that does not look at the data."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.privacy.mechanisms import row_norms, scale_rows
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block


def random_projection(num_features: int, n_components: int, seed: int = 0) -> Tensor:
    r"""Random orthogonal directions, ``[num_features, n_components]``, scaled so
    that the squared length of a row is kept on average. Whoever knows the seed
    knows them: they are no secret, and they cost nothing.

    Args:
        num_features (int): The number of features.
        n_components (int): The number of directions; with as many as there
            are features, nothing is projected.
        seed (int, optional): The seed. (default: :obj:`0`)
    """
    if n_components >= num_features:
        return torch.eye(num_features)
    rng = torch.Generator().manual_seed(seed)
    start = torch.randn(num_features, n_components, generator=rng, dtype=torch.double)
    directions = torch.linalg.qr(start).Q
    return (directions * (num_features / n_components) ** 0.5).float()


def multiply_rows(x: Tensor, right: Tensor) -> Tensor:
    r"""Multiplies dense or sparse rows, ``[n, F]``, with a dense matrix, ``[F, d]``."""
    step = rows_per_block(x.size(1))
    return torch.cat([block @ right.to(block.dtype) for _, _, block in row_blocks(x, step)])


def unit_rows(x: Tensor) -> Tensor:
    r"""Divides each dense or sparse row by its length; rows of zeros stay."""
    return scale_rows(x, 1 / row_norms(x).clamp(min=1e-12))
