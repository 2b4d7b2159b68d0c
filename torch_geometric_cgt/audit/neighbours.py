r"""Changed sources: neighbouring graphs, which lack some nodes, attributes, edges or records, and a
source in two parts, of which a build sees the first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from torch_geometric_cgt.audit.records import take_rows
from torch_geometric_cgt.data import values_at
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import UNITS

SPLIT_UNITS = ('node', 'frozen_record')


def neighbour_of(source: Source, unit: str, which: Tensor) -> Source:
    r"""A source without some of its units, as the guarantee for that unit defines it.

    Args:
        source (Source): The checked source graph.
        unit (str): The unit. Without a :obj:`"node"`, its features are zero, it
            has no label, and all its edges are removed. Without its
            :obj:`"attributes"`, its features are zero, it has another label,
            and its edges stay. Without an :obj:`"edge"`, two nodes are not
            connected in any direction. A :obj:`"frozen_record"` is zeroed out
            as in :meth:`zero_out_records`.
        which (torch.Tensor): The nodes, ``[z]``, or the pairs of nodes,
            ``[z, 2]``.
    """
    if unit == 'edge':
        return remove_edges(source, which)
    if unit == 'node':
        return remove_nodes(source, which)
    if unit == 'attributes':
        return change_attributes(source, which)
    if unit == 'frozen_record':
        return zero_out_records(source, which)
    raise ValueError(f"'unit' must be one of {UNITS} (got '{unit}')")


def remove_edges(source: Source, pairs: Tensor) -> Source:
    r"""The source without the edges between some pairs of nodes, in both directions.

    Args:
        source (Source): The checked source graph.
        pairs (torch.Tensor): The pairs, ``[z, 2]``.
    """
    data, num_nodes = source.data, int(source.data.num_nodes or 0)
    low, high = data.edge_index.sort(dim=0).values
    gone_low, gone_high = pairs.sort(dim=1).values.unbind(dim=1)
    gone = torch.isin(low * num_nodes + high, gone_low * num_nodes + gone_high)
    return replace(source, data=_with_edges(data, ~gone))


def remove_nodes(source: Source, node: Tensor) -> Source:
    r"""The source without the features, labels and edges of some nodes. Their rows
    stay, because the number of nodes is public.

    Args:
        source (Source): The checked source graph.
        node (torch.Tensor): The nodes, ``[z]``.
    """
    edge_index = source.data.edge_index
    stays = ~torch.isin(edge_index, node).any(dim=0)
    return zero_out_records(replace(source, data=_with_edges(source.data, stays)), node)


def change_attributes(source: Source, node: Tensor) -> Source:
    r"""The source with zero features and other labels at some nodes. All edges stay,
    and so does whether a node has a label.

    Args:
        source (Source): The checked source graph.
        node (torch.Tensor): The nodes, ``[z]``.
    """
    data, chosen = source.data, _mask(source, node)
    other = torch.where(data.y >= 0, (data.y + 1) % source.num_classes, data.y)
    y = torch.where(chosen, other, data.y)
    return replace(source, data=_with_nodes(data, _zero_rows(data.x, chosen), y))


def zero_out_records(source: Source, node: Tensor) -> Source:
    r"""Zeroes out the records of some roots.

    The features of these nodes become zero. Their labels are removed, and with
    them their computation graphs. The number of rows and all edges stay, so
    the sample of neighbours and the rows of all other nodes do not change.

    Args:
        source (Source): The checked source graph.
        node (torch.Tensor): The roots in question, ``[z]``.
    """
    data, gone = source.data, _mask(source, node)
    num_zeroed = source.num_zeroed + int((gone & (data.y >= 0)).sum())
    zeroed = _with_nodes(data, _zero_rows(data.x, gone), data.y.masked_fill(gone, -1))
    split = None if source.split is None else source.split.masked_fill(gone, 0)
    return replace(source, data=zeroed, split=split, num_zeroed=num_zeroed)


def undirected_pairs(data: Data) -> Tensor:
    r"""The connected pairs of a graph, each once with the smaller node first,
    ``[e, 2]``, without loops.
    """
    pair = data.edge_index.sort(dim=0).values.t()
    return pair[pair[:, 0] < pair[:, 1]].unique(dim=0)


def _with_edges(data: Data, stays: Tensor) -> Data:
    r"""A graph with some of its edges and their values."""
    edge_index, values = data.edge_index[:, stays], values_at(data, stays)
    return Data(x=data.x, edge_index=edge_index, y=data.y, **values)


def _with_nodes(data: Data, x: Tensor, y: Tensor) -> Data:
    r"""A graph with other features and labels and the same edges."""
    return Data(
        x=x, edge_index=data.edge_index, y=y, **values_at(data, torch.arange(data.num_edges))
    )


def _mask(source: Source, node: Tensor) -> Tensor:
    mask = torch.zeros(int(source.data.num_nodes or 0), dtype=torch.bool)
    mask[node] = True
    return mask


def _zero_rows(x: Tensor, gone: Tensor) -> Tensor:
    r"""A dense or sparse matrix with some rows set to zero, in its layout."""
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
    if unit not in SPLIT_UNITS:
        raise ValueError(f"'unit' must be one of {SPLIT_UNITS} (got '{unit}')")
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
