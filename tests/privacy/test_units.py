"""Units of privacy, and the bounds on the trees that one unit changes."""

import math
from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given, settings, target
from hypothesis import strategies as st

from tests.helpers.neighbours import Worst, bound_of, changed_trees, check_bounds, trees_by
from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import UNITS, CappedSample, StableSample
from torch_geometric_cgt.privacy.units import (
    CHANGED_ROW,
    HISTOGRAM,
    ONE_COUNT,
    SUMS,
    check_unit,
    group_size,
)
from torch_geometric_cgt.sampler import unroll_trees
from torch_geometric_cgt.sampler.stable_edges import children_by_priority, distinct_pairs
from torch_geometric_cgt.utils.seeds import keyed_hash

CHANGED = ('direction', 'edge', 'attributes', 'node')
SETTINGS = [(parents, depth) for parents in (1, 2, 3) for depth in (1, 2, 3)]


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


@pytest.mark.parametrize(
    'parents, depth, by_hand',
    [
        (1, 1, (2, 4, 2, 2 + 5)),
        (1, 2, (4, 6, 3, 3 + 5 * 2)),
        (2, 1, (2, 4, 3, 3 + 5)),
        (2, 2, (6, 10, 7, 7 + 5 * 3)),
        (3, 2, (8, 14, 13, 13 + 5 * 4)),
        (2, 3, (14, 22, 15, 15 + 5 * 7)),
    ],
)
def test_numbers_of_stable_samples_by_hand(parents, depth, by_hand):
    assert tuple(bound_of(unit, parents, depth, 5) for unit in CHANGED) == by_hand


@st.composite
def edges_of_graphs(draw):
    """The edges of a small graph, with hubs, parallel edges, self-loops and isolated nodes."""
    n = draw(st.integers(2, 8))
    kind = draw(st.sampled_from(['random', 'star', 'path', 'complete', 'hubs']))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=2 * n))
    if kind == 'star':
        pairs += [(0, i) for i in range(1, n)]
    elif kind == 'path':
        pairs += [(i, i + 1) for i in range(n - 1)]
    elif kind == 'complete':
        pairs += [(i, j) for i in range(n) for j in range(i)]
    elif kind == 'hubs':
        pairs += [(hub, i) for hub in (0, 1) for i in range(2, n)]
    edges = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    way = draw(st.sampled_from(['undirected', 'out', 'in']))
    if way == 'undirected':
        return n, torch.cat([edges, edges.flip(0)], dim=1)
    return n, edges if way == 'out' else edges.flip(0)


def draw_case(data):
    """A graph, caps, fan-outs and the priorities of all pairs, hashes or numbers with ties."""
    n, edges = data.draw(edges_of_graphs())
    parents = data.draw(st.integers(1, 3))
    shape = TreeShape.of(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    key = data.draw(st.integers(0, 2**64 - 1))
    table = keyed_hash(torch.cartesian_prod(torch.arange(n), torch.arange(n)).t(), key)
    if data.draw(st.booleans()):
        table = table % data.draw(st.sampled_from([1, 2, 7]))
    return n, edges, parents, shape, table.reshape(n, n)


def check_drawn(data):
    n, edges, parents, shape, table = draw_case(data)
    trees = partial(trees_by, table, max_parents=parents, shape=shape)
    target(check_bounds(trees, edges, n, parents, shape.depth))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_never_more_trees_change_than_the_bound(data):
    check_drawn(data)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(st.data())
def test_never_more_trees_change_than_the_bound_in_thousands_of_graphs(data):
    check_drawn(data)


@pytest.mark.parametrize('parents, depth', SETTINGS)
@pytest.mark.parametrize('unit', CHANGED)
def test_bounds_are_reached(parents, depth, unit):
    degree = 3
    graph = Worst(parents, depth)
    graph = graph.edge(unit == 'edge') if unit in ('edge', 'direction') else graph.star(degree)
    shape = TreeShape.of([3] * depth)
    trees = partial(trees_by, graph.table(), max_parents=parents, shape=shape)
    found = {
        number
        for kind, what, _, number in changed_trees(trees, graph.edge_index(), graph.num_nodes)
        if kind == unit and what in (0, (0, 1))
    }
    assert found == {bound_of(unit, parents, depth, degree)}
    with pytest.raises(AssertionError, match='trees change, the bound is'):
        check_bounds(trees, graph.edge_index(), graph.num_nodes, parents, depth, less=1)


def permuted(edges, num_nodes, max_parents, shape):
    """The rule of one permutation of all edges, drawn again on each graph with the same seed."""
    pairs, most = distinct_pairs(edges, num_nodes), max(shape.num_neighbors)
    order = torch.randperm(pairs.size(1), generator=torch.Generator().manual_seed(0)).numpy()
    lists = children_by_priority(pairs, order, num_nodes, max_parents, most)
    return unroll_trees(lists, torch.arange(num_nodes), shape)


def chained(edges, num_nodes, max_parents, shape):
    """Edges one after the other, each kept if both of its ends have room: choices feed back."""
    kept, shares = [], ([0] * num_nodes, [0] * num_nodes)
    for u, v in sorted(map(tuple, edges.t().tolist())):
        if shares[0][u] < max_parents and shares[1][v] < 1:
            kept.append((u, v))
            shares[0][u], shares[1][v] = shares[0][u] + 1, shares[1][v] + 1
    lists = InNeighbors.from_edge_index(torch.tensor(kept).view(-1, 2).t(), num_nodes)
    return unroll_trees(lists, torch.arange(num_nodes), shape)


def ring(num_nodes):
    i = torch.arange(num_nodes)
    one_way = torch.stack([i, (i + 1) % num_nodes])
    return torch.cat([one_way, one_way.flip(0)], dim=1)


@pytest.mark.parametrize('rule', [permuted, chained])
def test_other_rules_break_the_bounds(rule):
    n, shape = 30, TreeShape.of([2, 2])
    trees = partial(rule, num_nodes=n, max_parents=1, shape=shape)
    edges = ring(n)
    if rule is chained:  # a path on which each node takes the place of the one before
        i = torch.arange(n - 1)
        edges = torch.cat([torch.stack([i, i]), torch.stack([i, i + 1])], dim=1)
    with pytest.raises(AssertionError, match='trees change, the bound is'):
        check_bounds(trees, edges, n, 1, 2)


def test_without_a_bound_on_degrees_a_hub_changes_any_number_of_trees():
    numbers = []
    for n in (10, 20, 40, 80):  # a hub, node 0, and a ring of the others around it
        around = ring(n) + 1
        spokes = torch.stack([around[0, :n], torch.zeros(n, dtype=torch.long)])
        edges = torch.cat([around, spokes, spokes.flip(0)], dim=1)
        table = keyed_hash(torch.cartesian_prod(*2 * [torch.arange(n + 1)]).t(), 0)
        table = table.reshape(n + 1, n + 1) // 2 + 1
        table[:, 0] = 0  # everybody chooses the hub, then a neighbour on the ring
        trees = partial(trees_by, table, max_parents=1, shape=TreeShape.of([2, 2]))
        changes = changed_trees(trees, edges, n + 1)
        numbers.append(next(c for unit, what, _, c in changes if unit == 'node' and what == 0))
    assert all(c >= n / 2 for c, n in zip(numbers, (10, 20, 40, 80), strict=True))
    assert numbers == sorted(numbers)
    with pytest.raises(LedgerError, match=r"may change any number.*'max_degree'"):
        _ = StableSample(1, 2).trees_per_node


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(*2 * [st.floats(0, 1e6)]), min_size=1, max_size=6))
def test_a_changed_row_moves_a_histogram_by_at_most_the_square_root_of_two(rows):
    a, b = torch.tensor(rows, dtype=torch.float64).t()
    a, b = (row / row.norm().clamp(min=1) for row in (a, b))
    assert (a - b).norm() <= CHANGED_ROW + 1e-12
    assert math.isclose((torch.eye(2)[0] - torch.eye(2)[1]).norm(), CHANGED_ROW, rel_tol=1e-6)
    assert (a + b).norm() <= 2 + 1e-12  # of any sign: the row b may be negative


@pytest.mark.parametrize('wrong', [(0, 1), (1, 0), (True, 1), (1, 1, 0), (1, 2.5)])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match='must be a positive integer'):
        StableSample(*wrong)
