r"""Members and others: a source in two parts, of which a build sees the first one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from torch_geometric_cgt.audit.neighbours import remove_edges, undirected_pairs
from torch_geometric_cgt.audit.records import take_rows
from torch_geometric_cgt.data import values_at
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import Source

UNITS = ('node', 'frozen_record')


@dataclass(frozen=True)
class MemberSplit:
    r"""A source in two parts, of which a build sees the first one.

    Args:
        members (Source): The part that is built from.
        others (Source): The part that is left out.
        unit (str): What is left out: :obj:`"node"` for nodes with all their
            edges, :obj:`"frozen_record"` for computation graphs of nodes that
            stay in the graph as neighbours.
        is_member (torch.Tensor): The mask of the members among all nodes of
            the source, ``[N]``.
        held_out (torch.Tensor, optional): Pairs of nodes of :obj:`members` that
            are connected in the source and not in :obj:`members`, ``[h, 2]``.
            (default: :obj:`None`)
    """

    members: Source
    others: Source
    unit: str
    is_member: Tensor
    held_out: Tensor | None = None


def split_members(source: Source, members: Tensor, unit: str = 'node') -> MemberSplit:
    r"""Splits a source into members and others.

    By :obj:`"node"`, each part is the subgraph of its own nodes. By
    :obj:`"frozen_record"`, each part is the whole graph with the labels of its own
    roots only. If the split is random, only a build that depends on single
    members can tell the parts apart.

    Args:
        source (Source): The checked source graph.
        members (torch.Tensor): The mask of the members, ``[N]``.
        unit (str, optional): :obj:`"node"` or :obj:`"frozen_record"`.
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
    part = _subgraph if unit == 'node' else _own_labels
    split = MemberSplit(part(source, members), part(source, ~members), unit, members)
    for side, what in ((split.members, 'a member'), (split.others, "outside of 'members'")):
        if side.root.numel() == 0:
            raise SourceError(f'No labelled node of the source is {what}')
    return split


def hold_out_edges(split: MemberSplit, share: float, seed: int) -> MemberSplit:
    r"""Removes a share of the connections between members, which an attacker then
    has to tell from those that stayed.

    Args:
        split (MemberSplit): The members and the others.
        share (float): The share of connections to remove.
        seed (int): The seed of their choice.
    """
    pairs = undirected_pairs(split.members.data)
    perm = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))
    gone = pairs[perm[: round(share * len(pairs))]]
    return replace(split, members=remove_edges(split.members, gone), held_out=gone)


def random_members(source: Source, unit: str, seed: int) -> Tensor:
    r"""A random half of the nodes as a mask ``[N]``; for records, a random half
    of the labelled nodes.
    """
    num_nodes = int(source.data.num_nodes or 0)
    candidate = source.root if unit == 'frozen_record' else torch.arange(num_nodes)
    perm = torch.randperm(candidate.numel(), generator=torch.Generator().manual_seed(seed))
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[candidate[perm[: candidate.numel() // 2]]] = True
    return mask


def _subgraph(source: Source, mask: Tensor) -> Source:
    data, node = source.data, mask.nonzero().view(-1)
    edge_index, edge = subgraph(
        mask,
        data.edge_index,
        torch.arange(data.num_edges),
        relabel_nodes=True,
        num_nodes=int(data.num_nodes or 0),
    )
    values = values_at(data, edge)
    part = Data(x=take_rows(data.x, node), edge_index=edge_index, y=data.y[mask], **values)
    split = None if source.split is None else source.split[mask]
    return replace(source, data=part, split=split)


def _own_labels(source: Source, mask: Tensor) -> Source:
    data = source.data
    values = values_at(data, torch.arange(data.num_edges))
    y = data.y.masked_fill(~mask, -1)
    part = Data(x=data.x, edge_index=data.edge_index, y=y, **values)
    return replace(source, data=part)
