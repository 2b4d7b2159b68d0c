r"""Records: computation graphs as somebody sees them who knows the graph and a codebook."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data import TreeShape, tokens_of
from torch_geometric_cgt.release.release import project
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block


@dataclass(frozen=True)
class Records:
    r"""The computation graphs of some roots in terms of a release.

    Args:
        tokens (torch.Tensor): Several draws of the token tree of each root,
            ``[D, n, T]``.
        y (torch.Tensor): The label of each root, ``[n]``.
        distance (torch.Tensor): How far the features of each root are from
            the codeword that stands for them, ``[n]``.
        degree (torch.Tensor): The number of neighbours of each root, ``[n]``.
        num_tokens (int): The number of tokens, which is also the null one.
        shape (TreeShape): The geometry of the trees.
    """

    tokens: Tensor
    y: Tensor
    distance: Tensor
    degree: Tensor
    num_tokens: int
    shape: TreeShape

    def __len__(self) -> int:
        return self.y.numel()

    @classmethod
    def cat(cls, parts: Sequence[Records]) -> Records:
        r"""Records of several graphs in terms of one release."""
        return cls(
            torch.cat([part.tokens for part in parts], dim=1),
            torch.cat([part.y for part in parts]),
            torch.cat([part.distance for part in parts]),
            torch.cat([part.degree for part in parts]),
            parts[0].num_tokens,
            parts[0].shape,
        )


def records_of(
    data: Data,
    root: Tensor,
    codebook: Tensor,
    shape: TreeShape,
    num_draws: int,
    rng: torch.Generator,
    cluster: Tensor | None = None,
) -> Records:
    r"""Draws computation graphs and names their nodes by codewords.

    Args:
        data (Data): The graph.
        root (torch.Tensor): The nodes whose records are wanted, ``[n]``.
        codebook (torch.Tensor): The codewords of a release, ``[m, F]``.
        shape (TreeShape): The geometry of the trees.
        num_draws (int): The number of trees of each root.
        rng (torch.Generator): The source of randomness.
        cluster (torch.Tensor, optional): The codeword of each node, ``[N]``,
            where it is known. By default, the nearest one.
            (default: :obj:`None`)
    """
    nearest, distance = nearest_codeword(data.x, codebook)
    cluster = nearest if cluster is None else cluster.long()
    graph = InNeighbors.from_edge_index(data.edge_index, int(data.num_nodes or 0))
    num_tokens = codebook.size(0)
    tokens = [
        tokens_of(sample_trees(graph, root, shape, rng), cluster, num_tokens)
        for _ in range(num_draws)
    ]
    return Records(
        torch.stack(tokens), data.y[root], distance[root], graph.degree(root), num_tokens, shape
    )


def projected(data: Data, projection: Tensor | None) -> Data:
    r"""A graph with its features in the space of a codebook.

    Args:
        data (Data): The graph.
        projection (torch.Tensor, optional): The public projection, ``[F, d]``,
            where codewords are projected.
    """
    if projection is None:
        return data
    out = copy.copy(data)
    out.x = project(data.x, projection)
    return out


def nearest_codeword(x: Tensor, codebook: Tensor) -> tuple[Tensor, Tensor]:
    r"""The nearest codeword of each row, and how far it is.

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
