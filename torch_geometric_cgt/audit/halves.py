r"""Members and others: two parts of a source that chance tells apart, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import Source

UNITS = ('node', 'record')


@dataclass(frozen=True)
class Halves:
    r"""A source in two parts, of which a build sees one.

    Args:
        inside (Source): What is built from; its roots are the members.
        outside (Source): Its roots are those that were left out.
        unit (str): What was left out: nodes with all their edges, or records,
            which are computation graphs of nodes that stay as neighbours.
    """

    inside: Source
    outside: Source
    unit: str


def halve(source: Source, members: Tensor, unit: str = 'node') -> Halves:
    r"""Splits a source into members and others.

    By :obj:`"node"`, each part is the subgraph of its own nodes. By
    :obj:`"record"`, both parts are the whole graph, with the labels of its own
    roots. If chance made the parts, a build that learns nothing of single
    members cannot tell them apart.

    Args:
        source (Source): The checked source graph.
        members (torch.Tensor): The mask of the members, ``[N]``.
        unit (str, optional): :obj:`"node"` or :obj:`"record"`.
            (default: :obj:`"node"`)
    """
    num_nodes = int(source.data.num_nodes or 0)
    if unit not in UNITS:
        raise ValueError(f"'unit' must be one of {UNITS} (got '{unit}')")
    if members.dtype != torch.bool or members.shape != (num_nodes,):
        raise ValueError(
            f"'members' must be a mask of {num_nodes} nodes "
            f'(got {members.dtype} of shape {list(members.shape)})'
        )
    part = _subgraph if unit == 'node' else _labels_of
    halves = Halves(part(source, members), part(source, ~members), unit)
    for side, what in ((halves.inside, 'a member'), (halves.outside, 'outside')):
        if side.root.numel() == 0:
            raise SourceError(f'No labelled node of the source is {what}')
    return halves


def random_members(source: Source, unit: str, seed: int) -> Tensor:
    r"""A random half of the nodes, or of the labelled ones if records are told
    apart, as a mask ``[N]``.
    """
    num_nodes = int(source.data.num_nodes or 0)
    candidate = source.root if unit == 'record' else torch.arange(num_nodes)
    perm = torch.randperm(candidate.numel(), generator=torch.Generator().manual_seed(seed))
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[candidate[perm[: candidate.numel() // 2]]] = True
    return mask


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    r"""Some rows of a dense or sparse matrix, in its layout."""
    if x.layout == torch.strided:
        return x[index]
    rows = x.to_sparse_coo().index_select(0, index).coalesce()
    return rows.to_sparse_csr() if x.layout == torch.sparse_csr else rows


def _subgraph(source: Source, mask: Tensor) -> Source:
    data, node = source.data, mask.nonzero().view(-1)
    edge_index, _ = subgraph(
        mask, data.edge_index, relabel_nodes=True, num_nodes=int(data.num_nodes or 0)
    )
    part = Data(x=take_rows(data.x, node), edge_index=edge_index, y=data.y[mask])
    split = None if source.split is None else source.split[mask]
    return replace(source, data=part, split=split)


def _labels_of(source: Source, mask: Tensor) -> Source:
    data = source.data
    part = Data(x=data.x, edge_index=data.edge_index, y=data.y.masked_fill(~mask, -1))
    return replace(source, data=part)
