r"""Replaces tokens by their feature vectors."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform


@functional_transform('look_up_features')
class LookUpFeatures(BaseTransform):
    r"""Replaces :obj:`data.x`, the token of each node, by the feature vectors
    of the tokens. As the transform of a loader, it looks up the features of
    one batch at a time, and the graph stays small:

    .. code-block:: python

        loader = NeighborLoader(
            dataset.compact(),
            num_neighbors=[5, 5],
            transform=LookUpFeatures(dataset.codebook),
        )

    Args:
        codebook (torch.Tensor): The feature vector of each token, ``[m, F]``.
    """

    def __init__(self, codebook: Tensor) -> None:
        self.codebook = codebook

    def forward(self, data: Data) -> Data:
        if data.x is None or data.x.dim() != 1 or data.x.is_floating_point():
            found = None if data.x is None else f'{list(data.x.shape)}, {data.x.dtype}'
            raise ValueError(
                f"Expected one token per node in 'x', as in 'dataset.compact()' (got {found})"
            )
        data.x = self.codebook.to(data.x.device)[data.x.long()]
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({list(self.codebook.shape)})'
