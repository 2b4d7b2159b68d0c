r"""Counts of edge values per label, which one node or one edge changes little, and their draws."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.edge_counts import KEY
from torch_geometric_cgt.models.label_scenes import draw_columns
from torch_geometric_cgt.privacy import Entry, Gaussian
from torch_geometric_cgt.privacy.capped_counts import capped_pairs
from torch_geometric_cgt.utils.keyed import keyed_uniform

STAGE, NAME = 'edge values', 'values of edges'
CAP = 1  # edges of a node in a cell of the table: as a child, and as a parent
EDGES_PER_NODE = 3.0  # edges into a node that are counted, on average


def edge_value_entry(num_classes: int, num_values: int, capped: bool = True) -> Entry:
    r"""The ledger entry of :meth:`count_edge_values`, with noise that is not
    calibrated yet. The table has :math:`C` rows of :math:`m` cells, and the cap is
    :math:`a`.

    * A node of label :math:`c` is a parent in the :math:`m` cells of row
      :math:`c` and a child in all cells. Removing it changes a cell of row
      :math:`c` by at most :math:`2 a` and any other one by at most :math:`a`:
      :math:`a \sqrt{4 m + (C - 1) m}`.
    * Another label of a node moves the edges into it to another row. Both rows
      change by at most :math:`a` per cell: :math:`a \sqrt{2 m}`.
    * Each direction of an edge is in one cell: at most 2, if both are in one.

    Args:
        num_classes (int): The number of labels, :math:`C`.
        num_values (int): The number of edge tokens, :math:`m`.
        capped (bool, optional): Whether there are caps. Without them, there is a
            bound for edges only. (default: :obj:`True`)
    """
    changes = {'edge': 2.0}
    if capped:
        node = CAP * math.sqrt((3 + num_classes) * num_values)
        attributes = CAP * math.sqrt(2 * num_values)
        changes |= {'node': node, 'attributes': attributes, 'frozen_record': node}
    return Entry(STAGE, NAME, changes, Gaussian(1.0))


def count_edge_values(
    edge_index: Tensor,
    token: Tensor,
    y: Tensor,
    num_classes: int,
    num_values: int,
    rate: float,
    capped: bool = True,
) -> Tensor:
    r"""The number of edges per label of the parent and edge token, ``[C * m]``.

    Edges with equal ends and edges into nodes without a label are left out.
    Parallel edges count as one, with the smallest of their tokens. Thinning keeps
    an edge by a number that depends on its two nodes only. In each cell, at most
    :obj:`CAP` edges out of a node and into a node are counted (a maximum flow, see
    :meth:`~torch_geometric_cgt.privacy.capped_counts.capped_pairs`).

    Args:
        edge_index (torch.Tensor): Edges from child to parent, ``[2, E]``.
        token (torch.Tensor): The edge token of each edge, ``[E]``.
        y (torch.Tensor): The label of each node, negative for none, ``[N]``.
        num_classes (int): The number of labels, :math:`C`.
        num_values (int): The number of edge tokens, :math:`m`.
        rate (float): The share of edges that are kept.
        capped (bool, optional): Whether there are caps and thinning.
            (default: :obj:`True`)
    """
    num_nodes = y.numel()
    code = edge_index[0] * num_nodes + edge_index[1]
    code, order = (code * num_values + token).sort()
    pair, place = (code // num_values).unique_consecutive(return_inverse=True)
    first = torch.ones_like(place, dtype=torch.bool)
    first[1:] = place[1:] != place[:-1]
    child, parent, value = pair // num_nodes, pair % num_nodes, token[order][first]
    keep = (child != parent) & (y[parent] >= 0)
    if capped:
        edges = torch.stack([child, parent]).sort(dim=0).values
        keep &= keyed_uniform(edges, KEY) < rate
    child, parent, value = child[keep], parent[keep], value[keep]
    cell = y[parent] * num_values + value
    order, sizes = (
        cell.argsort(stable=True),
        torch.bincount(cell, minlength=num_classes * num_values),
    )
    cap = CAP if capped else None
    parts = torch.stack([child, parent])[:, order].split(sizes.tolist(), dim=1)
    return torch.tensor([capped_pairs(part, cap, cap) for part in parts])


def draw_by_label(
    share: Tensor,
    evidence: Tensor,
    shape: TreeShape,
    tokens: Tensor,
    y: Tensor,
    generator: torch.Generator,
) -> Tensor:
    r"""Draws edge tokens given the label of the parent, ``[n, T]``. The parent of
    the first layer is the root, whose label is known. Other parents have a label
    with the probability that their token indicates.

    Args:
        share (torch.Tensor): The distribution of edge tokens of each label,
            ``[C, m]``.
        evidence (torch.Tensor): The probability of each label given a token,
            ``[num_tokens, C]``.
        shape (TreeShape): The geometry of the trees.
        tokens (torch.Tensor): The node tokens, ``[n, T]``.
        y (torch.Tensor): The labels, ``[n]``.
        generator (torch.Generator): The source of randomness.
    """
    num_tokens, num_values = evidence.size(0), share.size(1)
    out = torch.full(tokens.shape, num_values)
    rows = torch.cat([evidence @ share, share])  # by token, then by label
    parent = tokens[:, shape.parent[1:]].long()
    below_root = shape.parent[1:] == 0
    row = torch.where(below_root, num_tokens + y[:, None].long(), parent.clamp(max=num_tokens - 1))
    drawn = draw_columns(rows, row, generator)
    out[:, 1:] = torch.where(tokens[:, 1:] != num_tokens, drawn, num_values)
    return out


def label_given_token(tokens: Tensor, y: Tensor, num_tokens: int, num_classes: int) -> Tensor:
    r"""The share of each label among released trees whose root has a token,
    ``[num_tokens, C]``.

    Args:
        tokens (torch.Tensor): The token of each root, ``[n]``.
        y (torch.Tensor): The label of each tree, ``[n]``.
        num_tokens (int): The number of tokens.
        num_classes (int): The number of labels.
    """
    pair = tokens.long() * num_classes + y.long()
    count = torch.bincount(pair, minlength=num_tokens * num_classes).double()
    prior = torch.bincount(y.long(), minlength=num_classes).double() / max(1, y.numel())
    count = count.view(num_tokens, num_classes) + prior
    return count / count.sum(dim=1, keepdim=True)
