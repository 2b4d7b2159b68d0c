r"""Distributions of edge tokens: given parent, child and label, counted with back-off; and given
the labels, from private counts that one node or one edge changes little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.edge_counts import KEY, capped_pairs
from torch_geometric_cgt.models.scenes import draw_columns
from torch_geometric_cgt.privacy import Entry, Gaussian
from torch_geometric_cgt.utils.seeds import keyed_uniform

STRENGTH = 4.0  # weight of the coarser distribution, in edges per edge token that occurs
EDGE_VALUES, EDGE_COUNTS = 'edge values', 'values of edges'
CAP = 1  # edges of a node in a cell of the table: as a child, and as a parent
EDGES_PER_NODE = 3.0  # edges into a node that are counted, on average


@dataclass(frozen=True)
class CountedTable:
    r"""The distributions of one level of contexts.

    Args:
        context (torch.Tensor): The contexts that have enough support, sorted,
            ``[R]``.
        share (torch.Tensor): The distribution of edge tokens in each,
            ``[R, m]``.
    """

    context: Tensor
    share: Tensor

    def find(self, context: Tensor) -> tuple[Tensor, Tensor]:
        r"""The row of each context, and whether there is one, ``[e]``."""
        if self.context.numel() == 0:
            return torch.zeros_like(context), torch.zeros_like(context, dtype=torch.bool)
        row = torch.searchsorted(self.context, context).clamp(max=self.context.numel() - 1)
        return row, self.context[row] == context


class EdgeTables:
    r"""Draws the edge tokens of trees.

    The context of an edge is its layer, whether it is the first child of its
    parent, the label of the root, the edge token before it (of the sibling
    before it, or, for a first child, of the edge above its parent), and the
    tokens of its parent and its child. Five levels leave out more and more of it:

    1. everything,
    2. the labels that the tokens of parent and child indicate instead of the tokens,
    3. no parent and no child,
    4. neither these nor the edge token before,
    5. the layer alone.

    The distribution of a context is counted on the source. It is used only if
    the edges that were counted have at least :math:`k` distinct parents and at
    least :math:`k` distinct children. Otherwise, the next level decides. A
    distribution is mixed with that of the next level, the more so, the fewer
    edges it was counted on.

    Args:
        num_values (int): The number of edge tokens, :math:`m`.
        num_tokens (int): The number of node tokens.
        num_classes (int): The number of labels.
        indicated (torch.Tensor): The label that each node token indicates,
            ``[num_tokens]``.
        shape (TreeShape): The geometry of the trees.
    """

    def __init__(
        self,
        num_values: int,
        num_tokens: int,
        num_classes: int,
        indicated: Tensor,
        shape: TreeShape,
    ) -> None:
        self.num_values, self.num_tokens = num_values, num_tokens
        self.num_classes, self.shape = num_classes, shape
        self.indicated = indicated
        self.tables: list[CountedTable] = []
        self.overall = torch.full((num_values,), 1 / num_values, dtype=torch.double)

    def fit(self, tokens: Tensor, y: Tensor, nodes: Tensor, edge_tokens: Tensor, k: int) -> None:
        r"""Counts edge tokens on trees of the source.

        Args:
            tokens (torch.Tensor): The node tokens of the trees, ``[n, T]``.
            y (torch.Tensor): Their labels, ``[n]``.
            nodes (torch.Tensor): The node of each slot, ``[n, T]``.
            edge_tokens (torch.Tensor): The edge token of each slot, ``[n, T]``.
            k (int): The smallest number of parents and of children behind a
                distribution.
        """
        parts: list[list[Tensor]] = []
        for layer, step in self._steps():
            before = self._before(edge_tokens, layer, step)
            levels = self._contexts(tokens, y, before, layer, step)
            child = self._slots(layer, step)
            real = edge_tokens[:, child] != self.num_values
            parent = nodes[:, self.shape.parent[child]]
            found = [*levels, edge_tokens[:, child].long(), parent, nodes[:, child]]
            parts.append([value[real] for value in found])
        *levels, token, parent, child = (torch.cat(column) for column in zip(*parts, strict=True))
        if token.numel() == 0:
            return
        self.overall = _shares(torch.bincount(token, minlength=self.num_values)[None])[0]
        for context in reversed(levels):  # coarse ones first: finer ones back off to them
            self.tables.insert(0, self._count(context, token, parent, child, levels, k))

    def _count(
        self,
        context: Tensor,
        token: Tensor,
        parent: Tensor,
        child: Tensor,
        levels: list[Tensor],
        k: int,
    ) -> CountedTable:
        r"""The table of the next finer level than those that are known."""
        key, row = context.unique(return_inverse=True)
        enough = torch.ones(key.numel(), dtype=torch.bool)
        for node in (parent, child):
            pair = (row * (1 + int(node.max())) + node).unique()
            enough &= torch.bincount(pair // (1 + int(node.max())), minlength=key.numel()) >= k
        place = (enough.cumsum(0) - 1)[row]
        kept = enough[row]
        cell = place[kept] * self.num_values + token[kept]
        size = int(enough.sum())
        count = torch.bincount(cell, minlength=size * self.num_values).view(size, self.num_values)
        first = torch.full((size,), row.numel())  # one edge of each context
        first.scatter_reduce_(0, place[kept], kept.nonzero().view(-1), 'amin')
        prior = self._shares_of([level[first] for level in levels])
        strength = STRENGTH * (count > 0).sum(dim=1, keepdim=True)
        return CountedTable(key[enough], _shares(count + strength * prior))

    def _shares_of(self, levels: list[Tensor]) -> Tensor:
        r"""The distribution of each edge by the finest level that knows its context, ``[e, m]``."""
        out = self.overall.expand(levels[0].numel(), -1).clone()
        known = zip(reversed(self.tables), reversed(levels), strict=False)  # coarse ones first
        for table, context in known:
            row, is_known = table.find(context)
            if bool(is_known.any()):
                out[is_known] = table.share[row[is_known]]
        return out

    def draw(self, tokens: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        r"""Draws the edge tokens of trees, ``[n, T]``. Roots and null slots get
        :obj:`num_values`.

        Args:
            tokens (torch.Tensor): The node tokens, ``[n, T]``.
            y (torch.Tensor): The labels, ``[n]``.
            generator (torch.Generator): The source of randomness.
        """
        out = torch.full(tokens.shape, self.num_values)
        for layer, step in self._steps():
            child = self._slots(layer, step)
            before = self._before(out, layer, step)
            chance = torch.rand(
                (len(tokens), child.numel()), dtype=torch.double, generator=generator
            )
            real = tokens[:, child] != self.num_tokens
            if not bool(real.any()):
                continue
            levels = self._contexts(tokens, y, before, layer, step)
            share = self._shares_of([level[real] for level in levels])
            above = share.cumsum(dim=1) < chance[real][:, None] * share.sum(dim=1, keepdim=True)
            drawn = above.sum(dim=1).clamp(max=self.num_values - 1)
            out[:, child] = out[:, child].masked_scatter(real, drawn)
        return out

    def _steps(self) -> list[tuple[int, int]]:
        r"""All layers, and the places among siblings in each."""
        fan_outs = self.shape.num_neighbors
        return [(layer, i) for layer, f in enumerate(fan_outs, start=1) for i in range(f)]

    def _slots(self, layer: int, step: int) -> Tensor:
        r"""The slots of one layer that have one place among their siblings."""
        slots = torch.arange(self.shape.num_slots)[self.shape.layer_slice(layer)]
        return slots[step :: self.shape.num_neighbors[layer - 1]]

    def _before(self, edge_tokens: Tensor, layer: int, step: int) -> Tensor:
        r"""The edge token before that of each slot, ``[n, P]``."""
        slots = self._slots(layer, step)
        return edge_tokens[:, slots - 1 if step else self.shape.parent[slots]].long()

    def _contexts(
        self, tokens: Tensor, y: Tensor, before: Tensor, layer: int, step: int
    ) -> list[Tensor]:
        r"""The context of each slot, from the finest level to the coarsest, ``[n, P]`` each."""
        slots = self._slots(layer, step)
        size, m = self.num_tokens + 1, self.num_values + 1
        place = torch.full(before.shape, 2 * layer + (step == 0))
        labelled = place * self.num_classes + y[:, None]
        after = labelled * m + before
        indicated = torch.cat([self.indicated, self.indicated.new_tensor([self.num_classes])])
        parent, child = (tokens[:, s].long() for s in (self.shape.parent[slots], slots))
        coarse = after * (self.num_classes + 1) + indicated[parent]
        coarse = coarse * (self.num_classes + 1) + indicated[child]
        return [(after * size + parent) * size + child, coarse, after, labelled, place]


def _shares(count: Tensor) -> Tensor:
    return count.double() / count.sum(dim=1, keepdim=True)


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
    return Entry(EDGE_VALUES, EDGE_COUNTS, changes, Gaussian(1.0))


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
    :meth:`~torch_geometric_cgt.models.edge_counts.capped_pairs`).

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
