r"""Codebooks of edge values: with enough source nodes behind each value, and, for private builds, a
public grid between declared bounds.

The count of nodes behind a value must not be met by one node alone: a node with many edges, each
to another node that has no other edge with this value, is the only owner of all of them. So the
nodes that have the value by edges to one common node only count as one (:meth:`edge_support`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import EDGE_KEYS, EdgeForm, EdgeValues
from torch_geometric_cgt.errors import AnonymityError, SourceError
from torch_geometric_cgt.utils.checks import check_positive

MAX_VALUES = 64  # rows of a codebook
FIT_ROWS = 20_000  # rows that the centres are fitted to
STEPS = 25
MAX_CELLS = 256
Bounds = dict[str, list[list[float]]]  # for each name, the lower and upper bound of each column


@dataclass(frozen=True)
class EdgeCodebook:
    r"""A codebook of edge values, and the row of each edge.

    Args:
        values (EdgeValues): The codewords.
        token (torch.Tensor): The codeword of each edge, ``[E]``.
        support (torch.Tensor): The number of source nodes behind each codeword,
            see :meth:`edge_support`, ``[m]``.
    """

    values: EdgeValues
    token: Tensor
    support: Tensor


def edge_support(edge_index: Tensor, num_nodes: int) -> int:
    r"""The number of nodes behind a set of edges: the number of nodes at these
    edges, where those that lose all their edges together with one other node
    count as one with it.

    Let :math:`V` be the nodes at the edges, and :math:`V_u` those that are left
    if node :math:`u` is removed with its edges. The result is :math:`1 + \min_u
    |V_u|`, so that without any one node, all but one of them are left. It equals
    :math:`|V|` minus the largest number of nodes whose only neighbour is the same
    other node. More edges never make it smaller, because no :math:`V_u` loses a
    node by them.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, e]``.
        num_nodes (int): The number of nodes of the graph.
    """
    if edge_index.size(1) == 0:
        return 0
    low, high = edge_index.sort(dim=0).values
    pair = (low * num_nodes + high).unique()
    low, high = pair // num_nodes, pair % num_nodes
    is_loop = low == high
    end = torch.cat([low, high[~is_loop]])
    other = torch.cat([high, low[~is_loop]])
    degree = torch.bincount(end, minlength=num_nodes)
    hangs = (degree[end] == 1) & (end != other)  # the only neighbour of the end is the other end
    most = torch.bincount(other[hangs], minlength=1).max()
    return int((degree > 0).sum() - most)


def fit_edge_codebook(
    values: EdgeValues, edge_index: Tensor, num_nodes: int, k: int, seed: int = 0
) -> EdgeCodebook:
    r"""Groups edges with similar values, such that at least :math:`k` source nodes
    are behind each group, and computes the value of each group.

    1. Edges with equal values form a group if there are at most
       :obj:`MAX_VALUES` distinct values. Otherwise, k-means on standardised
       values forms up to :obj:`MAX_VALUES` groups.
    2. As long as a group has a support below :math:`k`, the group with the
       smallest one is merged with the nearest other group.
    3. The codeword of a group is the value with the largest support, if there are
       few distinct values and this one has a support of :math:`k` by itself.
       Otherwise, it is a weighted mean in which the edges of a node weigh at most
       one together, rounded to steps that are at least as large as one node can
       move it. Columns of an integer type are rounded to whole numbers.

    Args:
        values (EdgeValues): The values of all edges, ``[E, num_columns]``.
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        num_nodes (int): The number of nodes.
        k (int): The smallest support of a codeword.
        seed (int, optional): The seed of k-means. (default: :obj:`0`)
    """
    check_positive('k', k)
    table = values.table
    z = (table - table.mean(dim=0)) / table.std(dim=0, correction=0).clamp(min=1e-12)
    distinct, group = torch.unique(table, dim=0, return_inverse=True)
    if len(distinct) > MAX_VALUES:
        most = min(MAX_VALUES, max(1, len(table) // (2 * k)))
        group = _kmeans(z, most, seed)
    group = _merge(z, group, edge_index, num_nodes, k, values.form.names)
    support = [
        edge_support(edge_index[:, group == g], num_nodes) for g in range(int(group.max()) + 1)
    ]
    words = edge_codewords(values, group, edge_index, num_nodes, k)
    return EdgeCodebook(words, group, torch.tensor(support))


def edge_codewords(
    values: EdgeValues, group: Tensor, edge_index: Tensor, num_nodes: int, k: int
) -> EdgeValues:
    r"""The value of each group of edges, by rule 3 of :meth:`fit_edge_codebook`.

    Args:
        values (EdgeValues): The values of all edges, ``[E, num_columns]``.
        group (torch.Tensor): The group of each edge, ``[E]``.
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        num_nodes (int): The number of nodes.
        k (int): The smallest support of a codeword.
    """
    distinct, atom = torch.unique(values.table, dim=0, return_inverse=True)
    words = []
    for g in range(int(group.max()) + 1):
        inside = group == g
        edges, usual = edge_index[:, inside], None
        if len(distinct) <= MAX_VALUES:
            usual = _usual(atom[inside], edges, num_nodes, k)
        if usual is None:
            is_whole = values.form.is_whole
            words.append(_rounded_mean(values.table[inside], edges, num_nodes, is_whole))
        else:
            words.append(distinct[usual])
    return EdgeValues(torch.stack(words), values.form).fitted()


def _merge(
    z: Tensor, group: Tensor, edge_index: Tensor, num_nodes: int, k: int, names: tuple[str, ...]
) -> Tensor:
    r"""Merges groups until each has enough support. Returns groups without gaps, ``[E]``."""
    group = group.clone()
    support = {
        g: edge_support(edge_index[:, group == g], num_nodes) for g in group.unique().tolist()
    }
    centre = {g: z[group == g].mean(dim=0) for g in support}
    while support and min(support.values()) < k:
        if len(support) == 1:
            raise AnonymityError(
                f'{min(support.values())} source nodes are behind the values of '
                f'{" and ".join(names)}, fewer than k = {k}: use a smaller k, or remove them from '
                f'the source, e.g. data.{names[0]} = None'
            )
        least = min(support, key=lambda g: (support[g], g))
        rest = [g for g in support if g != least]
        near = min(rest, key=lambda g: (float((centre[g] - centre[least]).norm()), g))
        group[group == least] = near
        del support[least], centre[least]
        inside = group == near
        support[near] = edge_support(edge_index[:, inside], num_nodes)
        centre[near] = z[inside].mean(dim=0)
    return group.unique(return_inverse=True)[1]


def _usual(atom: Tensor, edge_index: Tensor, num_nodes: int, k: int) -> int | None:
    r"""The value of a group that most nodes have exactly, if these are enough."""
    support = {
        value: edge_support(edge_index[:, atom == value], num_nodes)
        for value in atom.unique().tolist()
    }
    usual = max(support, key=lambda value: support[value])
    return usual if support[usual] >= k else None


def edge_weights(edge_index: Tensor, num_nodes: int) -> Tensor:
    r"""A weight of each edge, ``[E]``, such that the edges of a node weigh at most one
    together.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        num_nodes (int): The number of nodes.
    """
    is_loop = edge_index[0] == edge_index[1]
    degree = torch.bincount(edge_index[0], minlength=num_nodes)
    degree += torch.bincount(edge_index[1, ~is_loop], minlength=num_nodes)
    return 1.0 / degree[edge_index].max(dim=0).values.double()


def _rounded_mean(rows: Tensor, edge_index: Tensor, num_nodes: int, is_whole: Tensor) -> Tensor:
    r"""The weighted mean of some rows, rounded, ``[d]``. With total weight :math:`w`, one node
    moves the mean by at most the range of the rows divided by :math:`w`.
    """
    weight = edge_weights(edge_index, num_nodes)
    mean = (weight[:, None] * rows).sum(dim=0) / weight.sum()
    moved = (rows.max(dim=0).values - rows.min(dim=0).values) / weight.sum()
    step = torch.where(moved > 0, 2 ** moved.clamp(min=1e-300).log2().ceil(), 0.0)
    step = torch.where(is_whole, step.clamp(min=1.0), step)
    return torch.where(step > 0, (mean / step).round() * step, rows[0])


def _kmeans(z: Tensor, num_groups: int, seed: int) -> Tensor:
    r"""Plain k-means with seeded centres. Returns the group of each row, ``[E]``."""
    rng = torch.Generator().manual_seed(seed)
    rows = z[torch.randperm(len(z), generator=rng)[:FIT_ROWS]]
    centre = rows[:1]
    for _ in range(num_groups - 1):  # far rows are likely to be the next centre
        distance = torch.cdist(rows, centre).min(dim=1).values.square()
        if float(distance.sum()) == 0:
            break
        drawn = torch.multinomial(distance, 1, generator=rng)
        centre = torch.cat([centre, rows[drawn]])
    for _ in range(STEPS):
        own = torch.cdist(rows, centre).argmin(dim=1)
        size = torch.bincount(own, minlength=len(centre))
        total = torch.zeros_like(centre).index_add_(0, own, rows)
        moved = torch.where(size[:, None] > 0, total / size.clamp(min=1)[:, None], centre)
        if torch.equal(moved, centre):
            break
        centre = moved
    return torch.cat([torch.cdist(part, centre).argmin(dim=1) for part in z.split(1 << 16)])


@dataclass(frozen=True)
class EdgeGrid:
    r"""Equal bins between declared bounds. A cell has one bin of each column. It does
    not depend on the data.

    Args:
        bounds (dict): The bounds of the columns of :obj:`edge_weight` and
            :obj:`edge_attr`, as :meth:`check_bounds` returns them.
        num_bins (int): The number of bins of a column.
    """

    bounds: Bounds
    num_bins: int

    def __post_init__(self) -> None:
        check_positive('edge_bins', self.num_bins)
        size = len(self.columns) * math.log(self.num_bins)  # a power may be a very large number
        if size > math.log(MAX_CELLS) + 1e-9:
            raise ValueError(
                f"'edge_bins' = {self.num_bins} for {len(self.columns)} columns gives more than "
                f"{MAX_CELLS} cells: use fewer bins, or fewer columns of 'edge_attr'"
            )

    @property
    def columns(self) -> list[list[float]]:
        r"""The bounds of all columns."""
        return [pair for name in EDGE_KEYS for pair in self.bounds.get(name, [])]

    @property
    def num_cells(self) -> int:
        r"""The number of cells."""
        return int(self.num_bins ** len(self.columns))

    def check(self, form: EdgeForm) -> None:
        r"""Raises :class:`~torch_geometric_cgt.errors.SourceError` unless the bounds
        are those of these edge values.

        Args:
            form (EdgeForm): The form of the edge values of a source.
        """
        found = {name: 1 for name in form.names}
        if form.attr is not None:
            found['edge_attr'] = max(1, form.size)
        declared = {name: len(pairs) for name, pairs in self.bounds.items()}
        if found != declared:
            raise SourceError(
                f"'edge_bounds' must hold the bounds of each column of the source's edge values, "
                f'{found} (got bounds for {declared})'
            )

    def values(self, form: EdgeForm) -> EdgeValues:
        r"""The middle of each cell, in the types of the form.

        Args:
            form (EdgeForm): The form of the edge values.
        """
        middle = (torch.arange(self.num_bins).double() + 0.5) / self.num_bins
        axes = [low + middle * (high - low) for low, high in self.columns]
        table = torch.cartesian_prod(*axes).view(self.num_cells, len(axes))
        table = torch.where(form.is_whole, table.round(), table)
        return EdgeValues(table, form).fitted()

    def tokens(self, values: EdgeValues) -> Tensor:
        r"""The cell of each edge, ``[E]``. Values outside of the bounds are in the
        nearest bin.

        Args:
            values (EdgeValues): The values of all edges.
        """
        token = torch.zeros(len(values), dtype=torch.long)
        for column, (low, high) in zip(values.table.t(), self.columns, strict=True):
            place = ((column - low) / (high - low) * self.num_bins).floor()
            token = token * self.num_bins + place.clamp(0, self.num_bins - 1).long()
        return token


def check_bounds(bounds: Any) -> Bounds:
    r"""Checks declared bounds and returns them in one form, for a JSON file.

    Args:
        bounds (dict): For :obj:`"edge_weight"` and :obj:`"edge_attr"`, as far as
            the source has them, the lower and the upper bound. For several
            columns, a list of such pairs.
    """
    example = "e.g. {'edge_weight': (0, 1)} or {'edge_attr': [(0, 1), (0, 10)]}"
    if not isinstance(bounds, Mapping) or not bounds or not set(bounds) <= set(EDGE_KEYS):
        raise ValueError(
            f"'edge_bounds' must hold the bounds of 'edge_weight', 'edge_attr' or both, {example} "
            f'(got {bounds!r:.80})'
        )
    out: Bounds = {}
    for name in EDGE_KEYS:
        if name in bounds:
            given = bounds[name]
            pairs = [given] if _is_pair(given) else given
            if not isinstance(pairs, Sequence) or not pairs or not all(map(_is_pair, pairs)):
                raise ValueError(
                    f"The bounds of '{name}' must be two finite numbers, the lower one first, or a "
                    f'list of such pairs, {example} (got {given!r:.80})'
                )
            out[name] = [[float(low), float(high)] for low, high in pairs]
    if len(out.get('edge_weight', [[]])) != 1:
        raise ValueError(
            f"'edge_weight' has one pair of bounds (got {bounds['edge_weight']!r:.80})"
        )
    return out


def _is_pair(given: Any) -> bool:
    if not isinstance(given, Sequence) or len(given) != 2:
        return False
    is_number = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in given)
    return is_number and all(map(math.isfinite, given)) and given[0] < given[1]
