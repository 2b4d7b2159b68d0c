import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import UNITS, CappedSample
from torch_geometric_cgt.privacy.units import (
    HISTOGRAM,
    ONE_COUNT,
    SUMS,
    check_unit,
    group_size,
)


@pytest.mark.parametrize(
    'parents, depth, per_node, per_arc, per_edge',
    [
        (1, 1, 2, 1, 2),
        (1, 3, 4, 3, 3),
        (2, 1, 3, 1, 2),
        (2, 2, 7, 3, 4),
        (3, 2, 13, 4, 6),
        (5, 3, 156, 31, 50),
    ],
)
def test_numbers_by_hand(parents, depth, per_node, per_arc, per_edge):
    assert CappedSample(parents, depth).trees_per_node == per_node
    assert CappedSample(parents, depth, undirected=False).trees_per_edge == per_arc
    assert CappedSample(parents, depth).trees_per_edge == per_edge


def trees(arcs, num_nodes, depth):
    """For each root, the nodes and the arcs (child, parent) of its tree, unrolled one by one."""
    out = []
    for root in range(num_nodes):
        layer, nodes, used = [root], {root}, set()
        for _ in range(depth):
            pairs = [(u, w) for w in layer for u, parent in arcs if parent == w]
            used.update(pairs)
            layer = [u for u, _ in pairs]
            nodes.update(layer)
        out.append((nodes, used))
    return out


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_node_and_no_edge_is_in_more_trees(data):
    num_nodes, depth = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 3))
    parents = data.draw(st.integers(1, 3))
    arcs = set()
    for child in range(num_nodes):
        others = [w for w in range(num_nodes) if w != child]
        for w in data.draw(st.lists(st.sampled_from(others), max_size=parents, unique=True)):
            arcs.add((child, w))
    unrolled = trees(arcs, num_nodes, depth)
    sample = CappedSample(parents, depth)
    one_way = CappedSample(parents, depth, undirected=False)
    for v in range(num_nodes):
        assert sum(v in nodes for nodes, _ in unrolled) <= sample.trees_per_node
    for u, w in product(range(num_nodes), repeat=2):
        there = sum((u, w) in used for _, used in unrolled)
        either = sum((u, w) in used or (w, u) in used for _, used in unrolled)
        assert there <= one_way.trees_per_edge
        assert either <= sample.trees_per_edge


def test_the_numbers_are_reached():
    """Two nodes that are parents of each other, and each of one more node: K = 2, L = 2."""
    arcs = {(0, 1), (1, 0), (0, 2), (1, 3), (4, 0), (4, 1)}
    unrolled = trees(arcs, 5, 2)
    sample = CappedSample(2, 2)
    either = sum((0, 1) in used or (1, 0) in used for _, used in unrolled)
    assert either == sample.trees_per_edge == 4
    # A node below a binary tree of parents.
    arcs = {(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)}
    assert sum(0 in nodes for nodes, _ in trees(arcs, 7, 2)) == sample.trees_per_node == 7


def test_groups():
    sample = CappedSample(2, 2)
    assert [group_size('record', unit, sample) for unit in ('record', 'edge', 'node')] == [1, 4, 7]
    assert [group_size('node', unit) for unit in ('record', 'edge', 'node')] == [1, 0, 1]
    assert group_size('edge', 'edge') == 1


def test_units_by_name():
    for unit in UNITS:
        check_unit(unit)
    assert UNITS[0] == 'node'  # the default comes first
    for name in ('record', 'graph', ''):
        with pytest.raises(ValueError, match=rf"must be one of 'node', .*got '{name}'"):
            check_unit(name)


def test_rows_of_one_node_move_sums_and_histograms_as_stated():
    """A row of length one in one of two bins is removed, or replaced by another one."""
    angles = torch.linspace(0, 2 * math.pi, 25, dtype=torch.double)
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    bins = torch.eye(2, dtype=torch.double)
    none = torch.zeros(1, 2, dtype=torch.double)
    for values, bounds in ((rows, SUMS), (bins, HISTOGRAM)):
        assert float(torch.cdist(values, none).max()) == pytest.approx(bounds['node'])
        assert float(torch.cdist(values, values).max()) == pytest.approx(bounds['attributes'])
    for bounds in (ONE_COUNT, HISTOGRAM, SUMS):
        assert set(bounds) == set(UNITS) and bounds['edge'] == 0


def test_what_is_not_known_is_not_guessed():
    with pytest.raises(LedgerError, match=r"One 'node' may be in any number.*CappedSample"):
        group_size('record', 'node')
    with pytest.raises(LedgerError, match=r'does not bound the cost of one .record.'):
        group_size('edge', 'record')
    for unit in ('graph', 'attributes', 'frozen_record'):
        with pytest.raises(LedgerError, match=rf"'{unit}' is not a unit of a ledger before"):
            group_size('record', unit)
    with pytest.raises(ValueError, match=r"'max_parents' must be a positive integer .got 0"):
        CappedSample(0, 2)
