r"""Attribute noise: random ones are added to binary feature vectors."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.errors import SourceError


@functional_transform('add_attribute_noise')
class AddAttributeNoise(BaseTransform):
    r"""Turns zeros of binary feature vectors into ones until each vector has
    :obj:`factor` times as many ones, one of the CGT paper's simple privacy
    baselines (functional name: :obj:`add_attribute_noise`).

    Zeros are drawn uniformly and independently for each node. One in :math:`x`
    ones is then an original one: the re-identification probability is
    :math:`1/x` for a node, as the paper reports, and 1 for an edge. The
    paper's text flips :math:`x s` zeros of a vector with :math:`s` ones, which
    is :obj:`factor=x + 1` here, with probability :math:`1 / (x + 1)`. A vector
    with too few zeros loses all of them.

    Args:
        factor (float): The number of ones afterwards as a multiple of the
            number before, :math:`x`, at least one.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, factor: float, seed: int = 0) -> None:
        if not 1 <= factor < float('inf'):
            raise ValueError(f"'factor' must be at least 1 (got {factor})")
        self.factor = factor
        self.seed = seed

    @property
    def node_reidentification(self) -> float:
        r"""The probability that an attribute of a node is an original one."""
        return 1 / self.factor

    @property
    def edge_reidentification(self) -> float:
        r"""The probability that an edge is an original one."""
        return 1.0

    def forward(self, data: Data) -> Data:
        if data.x is None or data.x.dim() != 2:
            raise SourceError("The graph has no feature matrix 'x'")
        if data.x.layout != torch.strided:
            data.x = data.x.to_dense()
        x = data.x.cpu()
        one = x == 1
        if not bool((one | (x == 0)).all()):
            value = float(x[~(one | (x == 0))][0])
            raise SourceError(
                f"'x' must be binary for attribute noise (got {value:g}): apply "
                f"'NormalizeFeatures' afterwards or not at all"
            )
        count = one.sum(dim=1)
        more = ((self.factor - 1) * count).round().long().minimum(x.size(1) - count)
        rng = torch.Generator().manual_seed(self.seed)
        # Each row is put in random order with its ones last, and its first zeros are flipped.
        score = torch.rand(x.shape, generator=rng).masked_fill(one, 2.0)
        rank = score.argsort(dim=1).argsort(dim=1)
        data.x = (one | (rank < more[:, None])).to(data.x.dtype).to(data.x.device)
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(factor={self.factor}, seed={self.seed})'
