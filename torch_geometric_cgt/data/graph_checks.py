r"""Checks of the features and the edges of a graph."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.errors import SourceError


def check_features(data: Data) -> Tensor:
    r"""Returns the features as a float matrix on the CPU, and raises an error if they are
    missing or invalid.
    """
    x = data.x
    if x is None:
        raise SourceError("The graph has no node features 'x'")
    if x.dim() != 2 or x.size(0) == 0 or x.size(1) == 0:
        raise SourceError(f"'x' must be a non-empty [N, F] matrix (got {list(x.shape)})")
    x = x.cpu() if x.is_floating_point() else x.cpu().float()
    if x.layout != torch.strided:
        if x.layout == torch.sparse_coo:
            x = x.coalesce()
        if not bool(torch.isfinite(x.values()).all()):
            raise SourceError("'x' must be finite (got NaN or infinite values)")
        return x
    bad = ~torch.isfinite(x)
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        raise SourceError(
            f"'x' must be finite (got {int(bad.sum())} NaN or infinite values, "
            f'the first in row {row}, column {column})'
        )
    return x


def check_edges(data: Data) -> Tensor:
    r"""Returns the edges, and raises an error if they are missing or invalid."""
    edge_index, num_nodes = data.edge_index, int(data.num_nodes or 0)
    if num_nodes == 0:
        raise SourceError('The graph is empty (got 0 nodes)')
    if edge_index is None:
        raise SourceError("The graph has no 'edge_index'")
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.is_floating_point():
        raise SourceError(
            f"'edge_index' must be an integer matrix of shape [2, E] "
            f'(got {edge_index.dtype} of shape {list(edge_index.shape)})'
        )
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise SourceError(
            f"'edge_index' must hold node ids from 0 to {num_nodes - 1} "
            f'(got {int(edge_index.min())} to {int(edge_index.max())})'
        )
    return edge_index
