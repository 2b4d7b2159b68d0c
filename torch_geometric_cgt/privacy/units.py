r"""Units of privacy: what neighbouring graphs differ in, and how many computation graphs change
with one edge, one node or its attributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.utils.checks import check_positive

UNITS = ('node', 'attributes', 'edge', 'frozen_record')
# The largest change of results that depend on the row of each node by itself: its features and
# its label, without its edges.
ONE_COUNT = {'node': 1.0, 'attributes': 1.0, 'edge': 0.0, 'frozen_record': 1.0}  # of one bin
HISTOGRAM = {'node': 1.0, 'attributes': 2**0.5, 'edge': 0.0, 'frozen_record': 1.0}
SUMS = {'node': 1.0, 'attributes': 2.0, 'edge': 0.0, 'frozen_record': 1.0}  # of rows of length one
LEGACY_UNITS = ('record', 'edge', 'node')  # of releases before format 3
#: The largest distance of two rows of non-negative numbers with a norm of at most one.
CHANGED_ROW = math.sqrt(2)


def check_unit(unit: str) -> None:
    r"""Raises an error unless the unit is one of :obj:`UNITS`.

    * :obj:`"node"`: the graph and the graph without one node, its features, its
      label and all its edges.
    * :obj:`"attributes"`: the graph and the graph in which one node has other
      features and another label, and the same edges.
    * :obj:`"edge"`: the graph and the graph without the connection of two nodes,
      in both directions.
    * :obj:`"frozen_record"`: one row of a table of computation graphs that is
      sampled once and kept. It protects neither a node nor its attributes,
      because a node is also in the computation graphs of others. It exists for
      comparisons with the literature.

    Args:
        unit (str): The unit.
    """
    if unit not in UNITS:
        raise ValueError(f'A unit must be one of {", ".join(map(repr, UNITS))} (got {unit!r})')


@dataclass(frozen=True)
class CappedSample:
    r"""A frozen sample of edges in which each node has a bounded number of parents,
    as ledgers of releases before format 3 state it.

    One set of edges (child to parent) is sampled once, before training. Every
    computation graph of :math:`L` layers is unrolled from it: the children of a
    node are the same wherever it occurs, or the first ones of them. A node is a
    child of at most :math:`K` parents.

    A node is in layer :math:`d` of the tree of a root if and only if a walk of
    :math:`d` edges leads from the node to the root. There are at most
    :math:`K^d` such walks, so the node is in at most :math:`1 + K + \ldots +
    K^L` trees.

    A directed edge is in a tree if and only if its parent is in one of the
    layers :math:`0, \ldots, L - 1`. This holds for at most :math:`1 + K +
    \ldots + K^{L-1}` trees. The number of occurrences of the edge in one tree
    does not matter, because the contribution of the whole tree is clipped.

    An undirected edge may be sampled in both directions. Then each endpoint has
    the other endpoint as one of its :math:`K` parents. The number of roots that
    are at most :math:`L - 1` edges away from either endpoint is therefore at
    most :math:`2 + 2 (K - 1) (1 + K + \ldots + K^{L-2}) = 2 K^{L-1}`. The
    larger of the two bounds is used.

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
        r"""The largest number of trees that contain a node."""
        return sum(self.max_parents**d for d in range(self.depth + 1))

    @property
    def trees_per_edge(self) -> int:
        r"""The largest number of trees that contain an edge."""
        one_way = sum(self.max_parents**d for d in range(self.depth))
        return (
            max(one_way, 2 * self.max_parents ** (self.depth - 1)) if self.undirected else one_way
        )


def group_size(rows: str, unit: str, sample: CappedSample | None = None) -> int:
    r"""The number of rows of a table that are removed together with one unit, for
    ledgers of releases before format 3.

    The data are two tables. One has a row per node (its features and its
    label), the other a row per record (the computation graph of a root).
    Neighbouring datasets are the same tables without the rows of one unit, or
    with these rows zeroed out so that the numbers of rows are public:

    * a record: the computation graph of one root, and the features and the
      label of that root. Copies of the root in other computation graphs stay.
    * an edge: all computation graphs that contain the edge.
    * a node: its features and its label, and all computation graphs that
      contain it.

    The sample of edges is part of the data. Neighbouring datasets share it: it
    is not drawn again without the unit. The guarantee is limited to this case.

    Args:
        rows (str): The rows of the table: :obj:`"record"`, :obj:`"node"`, or
            :obj:`"edge"` for a table of edges.
        unit (str): The unit that is removed.
        sample (CappedSample, optional): The frozen sample. It is required if
            one unit can be in several computation graphs.
            (default: :obj:`None`)
    """
    for name in (rows, unit):
        if name not in LEGACY_UNITS:
            raise LedgerError(f"'{name}' is not a unit of a ledger before format 3")
    if rows == unit or (rows == 'node' and unit == 'record'):
        return 1
    if rows == 'node':  # an edge has neither features nor a label
        return 0
    if rows == 'edge':
        raise LedgerError(
            f"The cost of one edge does not bound the cost of one '{unit}': state the sensitivity "
            f"of the mechanism for '{unit}' instead"
        )
    if sample is None:
        raise LedgerError(
            f"One '{unit}' may be in any number of computation graphs, unless their sample is "
            f'frozen and the number of parents is capped: give the ledger a CappedSample'
        )
    return sample.trees_per_node if unit == 'node' else sample.trees_per_edge


@dataclass(frozen=True)
class StableSample:
    r"""Bounds on the number of computation graphs that differ between two
    neighbouring graphs, if everything is computed again.

    The trees of :math:`L` layers are those of
    :meth:`~torch_geometric_cgt.sampler.stable_children` and
    :meth:`~torch_geometric_cgt.sampler.unroll_trees`. Each node chooses at most
    :math:`K` parents, those with the lowest priorities. The list of a node holds
    the lowest priorities among the nodes that chose it. Priorities of pairs do
    not depend on the graph. All bounds hold for every priority, hence for every
    key. Write :math:`S_d = 1 + K + \ldots + K^d`, and :math:`S_{-1} = 0`.

    **Trees of a changed list.** If the tree of a root differs between two graphs,
    take a slot nearest to the root at which the children differ. It is in one of
    the layers :math:`0, \ldots, L - 1`, its node has different lists in the two
    graphs, and every edge on the path from the root to it is in the lists of both
    graphs. A node is in the lists of at most :math:`K` nodes, those that it chose.
    So at most :math:`K^d` such paths of :math:`d` edges end in a given node, and
    each changed list changes at most :math:`S_{L-1}` trees.

    **One direction of an edge** (:math:`u \to v` removed). Only :math:`u` chooses
    again. If it had chosen :math:`v`, it chooses at most one other node
    :math:`v'` instead. The lists of :math:`v` and :math:`v'` may change:
    :math:`2 S_{L-1}` trees.

    **An edge** (both directions removed). If :math:`u` and :math:`v` do not both
    choose each other, one direction has no effect, and the bound above holds.
    If they do, then the lists of :math:`u, v, u', v'` may change. A path that ends
    in :math:`v` does not use the edge from :math:`v` to :math:`u`, which is in one
    of the graphs only. This leaves :math:`K - 1` choices of :math:`v` and
    :math:`1 + (K - 1) S_{L-2} = K^{L-1}` trees, and as many for :math:`u`. With
    :math:`S_{L-1}` trees each for :math:`u'` and :math:`v'`, these are
    :math:`2 K^{L-1} + 2 S_{L-1}` trees.

    **The attributes of a node** (features and label change, edges stay). No list
    changes. The node is in layer :math:`d` of at most :math:`K^d` trees:
    :math:`S_L` trees contain it.

    **A node** (removed with its attributes and all its edges; its number stays).
    Suppose that at most :math:`D` other nodes have an edge into it. At most
    :math:`S_L` trees contained it. For any other tree that changes, take again a
    slot nearest to the root at which the children differ. The removed node is
    neither at this slot nor among its former children. All other nodes keep their
    choices, except for a choice of the removed node. So the children can only
    differ because of a new one, which chose the node of the slot instead of the
    removed node. At most :math:`D` nodes choose again, and each of them chooses at
    most one other node: :math:`S_L + D S_{L-1}` trees. The edges out of the
    removed node need no bound.

    A node or an edge that is added changes as many trees as its removal. A node
    that is replaced, with other attributes and other edges, is removed and added:
    twice as many.

    **What a changed tree moves.** A histogram to which each tree adds a row of
    non-negative numbers :math:`a` with :math:`\lVert a \rVert_2 \leq 1` moves by
    at most :math:`\sqrt{2}` per changed tree: :math:`\lVert a - b \rVert^2 =
    \lVert a \rVert^2 + \lVert b \rVert^2 - 2 \langle a, b \rangle \leq 2`,
    because :math:`\langle a, b \rangle \geq 0`. Rows of any sign, such as
    gradients, move a sum by at most 2.

    Args:
        max_parents (int): The largest number of parents of a node, :math:`K`.
        depth (int): The number of layers below the root, :math:`L`.
        max_degree (int, optional): The largest number of other nodes with an
            edge into a node, :math:`D`, for which the node is protected. Nodes
            with more are promised nothing. (default: :obj:`None`)
    """

    max_parents: int
    depth: int
    max_degree: int | None = None

    def __post_init__(self) -> None:
        check_positive('max_parents', self.max_parents)
        check_positive('depth', self.depth)
        if self.max_degree is not None:
            check_positive('max_degree', self.max_degree)

    @property
    def trees_per_list(self) -> int:
        r"""The largest number of trees that change with the list of one node."""
        return sum(self.max_parents**d for d in range(self.depth))

    @property
    def trees_per_direction(self) -> int:
        r"""The largest number of trees that change with one direction of an edge."""
        return 2 * self.trees_per_list

    @property
    def trees_per_edge(self) -> int:
        r"""The largest number of trees that change with both directions of an edge."""
        return 2 * self.max_parents ** (self.depth - 1) + 2 * self.trees_per_list

    @property
    def trees_per_attributes(self) -> int:
        r"""The largest number of trees that contain a node."""
        return self.trees_per_list + self.max_parents**self.depth

    @property
    def trees_per_node(self) -> int:
        r"""The largest number of trees that change with a node of at most
        :obj:`max_degree` edges into it.
        """
        if self.max_degree is None:
            raise LedgerError(
                'A node of any degree may change any number of computation graphs: give '
                "StableSample a 'max_degree', which limits the promise to nodes with at most that "
                'many edges into them'
            )
        return self.trees_per_attributes + self.max_degree * self.trees_per_list
