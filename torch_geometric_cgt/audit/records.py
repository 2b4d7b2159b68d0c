r"""Records: computation graphs of a source, written in the tokens of a release."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TokenTrees, TreeShape, tokens_of
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.release.release import project
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block


@dataclass(frozen=True)
class Records:
    r"""The computation graphs of some roots.

    Args:
        draws (tuple[TokenTrees, ...]): Several samples of the trees of the
            same :math:`n` roots. Row :math:`i` of every sample belongs to root
            :math:`i`.
        distance (torch.Tensor): The distance of the features of each root to
            the nearest codeword, ``[n]``.
        degree (torch.Tensor): The number of neighbours of each root, ``[n]``.
    """

    draws: tuple[TokenTrees, ...]
    distance: Tensor
    degree: Tensor

    def __len__(self) -> int:
        return self.degree.numel()

    @property
    def y(self) -> Tensor:
        r"""The label of each root, ``[n]``."""
        return self.draws[0].y

    def all_trees(self) -> TokenTrees:
        r"""The trees of all samples, one sample after the other, ``[D * n]``."""
        return cat_trees(self.draws)

    @classmethod
    def cat(cls, parts: Sequence[Records]) -> Records:
        r"""Records of several graphs in the tokens of one release."""
        return cls(
            tuple(map(cat_trees, zip(*(part.draws for part in parts), strict=True))),
            torch.cat([part.distance for part in parts]),
            torch.cat([part.degree for part in parts]),
        )


def cat_trees(parts: Sequence[TokenTrees]) -> TokenTrees:
    r"""Several sets of trees with the same tokens as one.

    Args:
        parts (list[TokenTrees]): The sets.
    """
    return replace(
        parts[0],
        tokens=torch.cat([part.tokens for part in parts]),
        y=torch.cat([part.y for part in parts]),
        split=torch.cat([part.split for part in parts]),
        child_split=None,
    )


def records_of(
    source: Source,
    root: Tensor,
    codebook: Tensor,
    shape: TreeShape,
    num_draws: int,
    rng: torch.Generator,
    cluster: Tensor | None = None,
) -> Records:
    r"""Samples computation graphs and replaces their nodes by codewords.

    Args:
        source (Source): The graph, with features in the space of the codebook
            (see :meth:`projected`).
        root (torch.Tensor): The roots of the records, ``[n]``.
        codebook (torch.Tensor): The codewords of a release, ``[m, F]``.
        shape (TreeShape): The geometry of the trees.
        num_draws (int): The number of trees of each root.
        rng (torch.Generator): The source of randomness.
        cluster (torch.Tensor, optional): The codeword of each node, ``[N]``.
            By default, the nearest one. (default: :obj:`None`)
    """
    data, num_tokens = source.data, codebook.size(0)
    nearest, distance = nearest_codeword(data.x, codebook)
    token = nearest if cluster is None else cluster.long()
    graph = InNeighbors.from_edge_index(data.edge_index, int(data.num_nodes or 0))
    y = data.y[root]
    split = torch.zeros_like(y)  # records belong to no split

    def draw() -> TokenTrees:
        tokens = tokens_of(sample_trees(graph, root, shape, rng), token, num_tokens)
        return TokenTrees(tokens, y, split, num_tokens, source.num_classes, shape)

    draws = tuple(draw() for _ in range(num_draws))
    return Records(draws, distance[root], graph.degree(root))


def projected(source: Source, projection: Tensor | None) -> Source:
    r"""A source with its features in the space of a codebook.

    Args:
        source (Source): The checked source graph.
        projection (torch.Tensor, optional): The public projection of a release
            whose codewords are projected, ``[F, d]``.
    """
    if projection is None:
        return source
    data = copy.copy(source.data)
    data.x = project(source.data.x, projection)
    return replace(source, data=data)


def nearest_codeword(x: Tensor, codebook: Tensor) -> tuple[Tensor, Tensor]:
    r"""The nearest codeword of each row, and the distance to it.

    Args:
        x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
    """
    index, distance = [], []
    size = rows_per_block(max(codebook.size(0), x.size(1)))
    for _, _, rows in row_blocks(x, size):
        words = codebook.to(rows.dtype)
        if rows.layout == torch.strided:
            offset = words.mean(dim=0)  # the expanded square loses digits far from the origin
            rows, words = rows - offset, words - offset
            square = rows.square().sum(dim=1)
            product = rows @ words.t()
        else:
            square = torch.sparse.sum(rows * rows, dim=1).to_dense()
            product = torch.sparse.mm(rows, words.t().contiguous())
        found = (words.square().sum(dim=1) - 2 * product).min(dim=1)
        index.append(found.indices)
        distance.append((square + found.values).clamp(min=0).sqrt())
    return torch.cat(index), torch.cat(distance)


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    r"""Some rows of a dense or sparse matrix, in its layout."""
    if x.layout == torch.strided:
        return x[index]
    rows = x.to_sparse_coo().index_select(0, index).coalesce()
    return rows.to_sparse_csr() if x.layout == torch.sparse_csr else rows
