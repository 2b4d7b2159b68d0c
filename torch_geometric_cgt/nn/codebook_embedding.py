r"""A module that looks up the features of tokens."""

from __future__ import annotations

from torch import Tensor, nn


class CodebookEmbedding(nn.Module):
    r"""Replaces the token of each node by its feature vector. With it, a graph
    stores one number per node instead of a row of features:

    .. code-block:: python

        data = dataset.compact()
        embed = CodebookEmbedding(dataset.codebook)
        out = model(embed(data.x), data.edge_index)

    The codebook is a buffer: it moves with the module, and is not trained.

    Args:
        codebook (torch.Tensor): The feature vector of each token, ``[m, F]``.
    """

    codebook: Tensor

    def __init__(self, codebook: Tensor) -> None:
        super().__init__()
        self.register_buffer('codebook', codebook)

    def forward(self, token: Tensor) -> Tensor:
        r"""The feature vectors of tokens, ``[..., F]``.

        Args:
            token (torch.Tensor): The tokens, ``[...]``.
        """
        return nn.functional.embedding(token, self.codebook)

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({list(self.codebook.shape)})'
