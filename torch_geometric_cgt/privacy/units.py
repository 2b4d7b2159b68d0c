r"""Units of privacy: what is left out of neighbouring data, and how much that touches."""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric_cgt.errors import LedgerError

UNITS = ('record', 'edge', 'node')


@dataclass(frozen=True)
class CappedSample:
    r"""A frozen sample of edges in which no node has more than a few parents.

    One set of edges (child to parent) is sampled once, before anything is
    learned, and every computation graph of :math:`L` layers is unrolled from
    it: the children of a node are the same wherever it occurs, or the first
    ones of them. A node is a child of at most :math:`K` parents.

    A node is in layer :math:`d` of the tree of a root if and only if a walk of
    :math:`d` edges leads from it to the root. There are at most :math:`K^d`
    such walks, so that the node is in at most :math:`1 + K + \ldots + K^L`
    trees.

    A directed edge is in a tree if and only if its parent is in one of the
    layers :math:`0, \ldots, L - 1`, which is so for at most :math:`1 + K +
    \ldots + K^{L-1}` trees. How often the edge occurs in one of them does
    not matter, since the whole tree is clipped to one bound.

    An undirected edge may have been sampled in both directions. Then each of
    its ends spends one of its :math:`K` parents on the other one, and the
    roots that are at most :math:`L - 1` edges away from either end number at
    most :math:`2 + 2 (K - 1) (1 + K + \ldots + K^{L-2}) = 2 K^{L-1}`. The
    larger of both numbers holds.

    Args:
        max_parents (int): The largest number of parents of a node, :math:`K`.
        depth (int): The number of layers below the root, :math:`L`.
        undirected (bool, optional): Whether an edge of the source may be
            sampled in both directions. (default: :obj:`True`)
    """

    max_parents: int
    depth: int
    undirected: bool = True

    def __post_init__(self) -> None:
        for name in ('max_parents', 'depth'):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"'{name}' must be a positive integer (got {value!r})")

    @property
    def trees_per_node(self) -> int:
        r"""The largest number of trees that a node is in."""
        return sum(self.max_parents**d for d in range(self.depth + 1))

    @property
    def trees_per_edge(self) -> int:
        r"""The largest number of trees that an edge is in."""
        one_way = sum(self.max_parents**d for d in range(self.depth))
        return (
            max(one_way, 2 * self.max_parents ** (self.depth - 1)) if self.undirected else one_way
        )


def group_size(rows: str, unit: str, sample: CappedSample | None = None) -> int:
    r"""How many rows of a table go when one unit is left out.

    The data are two tables: one row per node (its features and its label),
    and one row per record, the computation graph of a root. Neighbouring data
    are the same tables with everything left out (or zeroed out, so that the
    numbers of rows are no secret) that a unit takes part in:

    * a record: the computation graph of one root, and the features and the
      label of that root. What other computation graphs hold of it stays.
    * an edge: all computation graphs with that edge.
    * a node: its features and its label, and all computation graphs that it
      is in.

    The sample of edges is part of the data. It is not drawn again without the
    unit, and what is promised is no more than that.

    Args:
        rows (str): What the rows of a table are: :obj:`"record"`,
            :obj:`"node"`, or :obj:`"edge"` for a table of edges.
        unit (str): What is left out.
        sample (CappedSample, optional): The frozen sample; needed where one
            unit is in several computation graphs. (default: :obj:`None`)
    """
    check_unit(rows)
    check_unit(unit)
    if rows == unit or (rows == 'node' and unit == 'record'):
        return 1
    if rows == 'node':  # an edge has neither features nor a label
        return 0
    if rows == 'edge':
        raise LedgerError(
            f"What one edge costs says nothing of one '{unit}': state the sensitivity of the "
            f"mechanism for '{unit}' instead"
        )
    if sample is None:
        raise LedgerError(
            f"One '{unit}' may be in any number of computation graphs, unless their sample is "
            f'frozen and the number of parents is capped: give the ledger a CappedSample'
        )
    return sample.trees_per_node if unit == 'node' else sample.trees_per_edge


def check_unit(unit: str) -> None:
    r"""Raises an error unless the unit is one of :obj:`UNITS`."""
    if unit not in UNITS:
        raise ValueError(f'A unit must be one of {", ".join(map(repr, UNITS))} (got {unit!r})')
