r"""Neighbouring data: a source in which the records of some nodes are zeroed out."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.pipeline.source import Source


def zero_out(source: Source, node: Tensor) -> Source:
    r"""Zeroes out the records of some roots, as the promise of a ledger has it.

    Their rows of features become zero and their labels go, and with the labels
    their computation graphs. All numbers of rows stay, and so do the edges, which
    the sample of neighbours was drawn from: the rows of all others are what they
    were, in both tables.

    Args:
        source (Source): The checked source graph.
        node (torch.Tensor): The roots in question, ``[z]``.
    """
    data, gone = source.data, torch.zeros(int(source.data.num_nodes or 0), dtype=torch.bool)
    gone[node] = True
    num_zeroed = source.num_zeroed + int((gone & (data.y >= 0)).sum())
    zeroed = Data(
        x=_zero_rows(data.x, gone), edge_index=data.edge_index, y=data.y.masked_fill(gone, -1)
    )
    split = None if source.split is None else source.split.masked_fill(gone, 0)
    return replace(source, data=zeroed, split=split, num_zeroed=num_zeroed)


def _zero_rows(x: Tensor, gone: Tensor) -> Tensor:
    r"""Some rows of a dense or sparse matrix set to zero, in its layout."""
    if x.layout == torch.strided:
        return x.masked_fill(gone[:, None], 0)
    rows = x.to_sparse_coo().coalesce()
    stays = ~gone[rows.indices()[0]]
    kept = torch.sparse_coo_tensor(
        rows.indices()[:, stays],
        rows.values()[stays],
        x.shape,
        is_coalesced=True,
        check_invariants=False,
    )
    return kept.to_sparse_csr() if x.layout == torch.sparse_csr else kept
