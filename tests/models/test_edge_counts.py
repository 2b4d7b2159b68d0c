"""Counts of edges and capped counts: no unit changes one by more than its bound."""

import math
from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.models import edge_counts
from torch_geometric_cgt.models.edge_counts import (
    ROUNDING,
    EdgeCaps,
    EdgeCounter,
    capped_items,
    capped_pairs,
)

NODES, LABELS, FAN_OUT = 8, 3, 3
edge_sets = st.sets(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)).filter(lambda e: e[0] != e[1]),
    max_size=30,
)
groups = st.lists(st.integers(0, LABELS - 1), min_size=NODES, max_size=NODES).map(torch.tensor)
all_caps = st.sampled_from(
    [
        EdgeCaps(),
        EdgeCaps(same=1, other=1, rates=1, child=1, wedges=1),
        EdgeCaps(same=3, other=2, child=2, wedges=2),
        EdgeCaps(capped=False),
    ]
)
FEW_NODES = 7
few_edges = st.sets(st.sampled_from(list(permutations(range(FEW_NODES), 2))), max_size=24)
caps = st.one_of(st.none(), st.integers(1, 3))


@pytest.fixture(autouse=True)
def every_pair_of_children(monkeypatch):
    """Small graphs have few pairs of children, so that all of them are counted."""
    monkeypatch.setattr(edge_counts, 'WEDGES_PER_NODE', 100.0)


def counts(edges, group, caps, rate=0.8):
    """All vectors that receive noise, by the name of their bound."""
    edge_index = torch.tensor(sorted(edges), dtype=torch.long).view(-1, 2).t()
    counter = EdgeCounter(edge_index, group, LABELS, caps)
    return {
        'labels': counter.labels(rate),
        'numbers': counter.numbers(FAN_OUT),
        'rates': counter.at_rates(),
        'mutual': counter.mutual().view(1),
        'wedges': counter.wedges(rate) * counter.rounding,
    }


def bounds(caps):
    return {
        'labels': caps.change_of_labels(LABELS),
        'numbers': caps.change_of_numbers(FAN_OUT),
        'rates': caps.change_of_rates(),
        'mutual': caps.change_of_mutual(),
        'wedges': caps.change_of_wedges(),
    }


def assert_within(before, after, allowed, unit):
    for name, bound in allowed.items():
        if unit not in bound:  # counts without caps have no bound for a node
            continue
        change = float((before[name].double() - after[name].double()).norm())
        assert change <= bound[unit] + 1e-9, (name, unit, change)


@settings(max_examples=40, deadline=None)
@given(edge_sets, groups, all_caps, st.booleans())
def test_no_unit_changes_a_count_by_more_than_its_bound(edges, group, caps, is_undirected):
    if is_undirected:
        edges = edges | {(b, a) for a, b in edges}
    before, allowed = counts(edges, group, caps), bounds(caps)
    for node in range(NODES):
        rest = {edge for edge in edges if node not in edge}
        assert_within(before, counts(rest, group, caps), allowed, 'node')
        other = group.clone()
        other[node] = (other[node] + 1) % LABELS
        assert_within(before, counts(edges, other, caps), allowed, 'attributes')
    for a, b in edges:
        assert_within(before, counts(edges - {(a, b), (b, a)}, group, caps), allowed, 'edge')
        assert_within(before, counts(edges - {(a, b)}, group, caps), allowed, 'edge')


def star(size):
    """A hub with an edge to and from every other node."""
    return {(i, 0) for i in range(1, size)} | {(0, i) for i in range(1, size)}


def test_a_hub_reaches_the_bound_of_numbers():
    """The bound is not too large: a hub between nodes of their own nearly reaches it."""
    caps = EdgeCaps(child=2)
    edges, group = star(NODES), torch.zeros(NODES, dtype=torch.long)
    before = counts(edges, group, caps)['numbers']
    after = counts({e for e in edges if 0 not in e}, group, caps)['numbers']
    change = float((before - after).double().norm())
    assert change > 0.9 * caps.change_of_numbers(FAN_OUT)['node']


@pytest.mark.parametrize('name', ['labels', 'numbers', 'rates', 'mutual', 'wedges'])
def test_a_count_without_its_cap_is_found(name, monkeypatch):
    """Each bound can be violated: without caps, a hub changes every count by more."""
    caps, edges = EdgeCaps(), star(NODES) | {(1, 2), (2, 1), (3, 4), (4, 3)}
    monkeypatch.setattr(edge_counts, 'capped_pairs', lambda pairs, *_: pairs.size(1))
    monkeypatch.setattr(edge_counts, 'capped_items', lambda items, *_: float(items.size(0)))
    group = torch.zeros(NODES, dtype=torch.long)
    before = counts(edges, group, caps, rate=1.0)
    after = counts({e for e in edges if 0 not in e}, group, caps, rate=1.0)
    few = {'numbers': EdgeCaps(child=1).change_of_numbers(FAN_OUT)}
    bound = (few.get(name) or bounds(caps)[name])['node']
    assert float((before[name].double() - after[name].double()).norm()) > bound


def test_counts_by_hand():
    # 1 -> 0, 2 -> 0, 3 -> 0 and back; labels 0: {0, 1, 2}, 1: {3}
    edges, group = star(4), torch.tensor([0, 0, 0, 1])
    found = counts(edges, group, EdgeCaps(capped=False), rate=1.0)
    assert found['labels'].view(3, 3).tolist() == [[4, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert found['numbers'].tolist() == [4, 5, 6]
    assert found['mutual'].tolist() == [6]
    assert found['wedges'].tolist() == [1.0, 2.0, 3.0]  # {1, 2} agree, {1, 3} and {2, 3} differ
    capped = counts(edges, group, EdgeCaps(same=1, other=1, child=1), rate=1.0)
    assert capped['labels'].view(3, 3)[0].tolist() == [2, 1, 0]
    assert capped['numbers'].tolist() == [2, 3, 4]


def test_self_loops_and_repeated_edges_are_left_out():
    edge_index = torch.tensor([[1, 1, 1, 0], [0, 0, 1, 0]])
    counter = EdgeCounter(edge_index, torch.zeros(2, dtype=torch.long), 1, EdgeCaps())
    assert counter.edges.tolist() == [[1], [0]]


def test_thinning_depends_on_the_two_nodes_only():
    edges = torch.tensor([[i, j] for i in range(40) for j in range(40) if i != j]).t()
    group = torch.zeros(40, dtype=torch.long)
    whole = EdgeCounter(edges, group, 1, EdgeCaps()).thinned(0.3)
    part = EdgeCounter(edges[:, ::3], group, 1, EdgeCaps()).thinned(0.3)
    kept = {tuple(edge) for edge in whole.t().tolist()}
    assert {tuple(edge) for edge in part.t().tolist()} == kept & {
        tuple(edge) for edge in edges[:, ::3].t().tolist()
    }
    assert {(b, a) for a, b in kept} == kept  # both directions, or none
    assert abs(len(kept) / edges.size(1) - 0.3) < 0.05


def test_caps_grow_with_the_number_of_nodes():
    small, large = EdgeCaps.of(1_000), EdgeCaps.of(1_000_000)
    assert small.child < large.child <= 50 and small.rates < large.rates <= 20
    assert 'node' not in EdgeCaps.of(1_000, capped=False).change_of_labels(5)
    edge = EdgeCaps.of(1_000, capped=False).change_of_numbers(4)['edge']
    assert math.isclose(edge, 2 * math.sqrt(4))


def test_a_hub_of_a_large_graph_is_paired_in_memory():
    size = 30_000
    leaves = torch.arange(1, size)
    edges = torch.stack([leaves, torch.zeros_like(leaves)])
    counter = EdgeCounter(edges, torch.zeros(size, dtype=torch.long), 1, EdgeCaps())
    equal, different, total = counter.wedges(0.02).tolist()
    assert equal == total == 3 / counter.rounding and different == 0


def pairs_of(edges):
    return torch.tensor(sorted(edges), dtype=torch.long).view(-1, 2).t()


@pytest.mark.parametrize(
    'edges, first, second, expected',
    [
        ([], 1, 1, 0),
        ([(1, 0), (2, 0), (3, 0)], 1, 2, 2),  # a star: the centre carries two
        ([(1, 0), (2, 0), (3, 0)], 1, None, 3),
        ([(0, 1), (0, 2), (0, 3)], 2, None, 2),
        ([(0, 1), (1, 0), (1, 2), (2, 1)], 1, 1, 2),  # the node 1 is in the middle
        ([(0, 1), (2, 1), (2, 3)], 1, 1, 2),  # a greedy choice of (2, 1) would give one
        ([(0, 1), (1, 2), (2, 0)], None, None, 3),
    ],
)
def test_flows_by_hand(edges, first, second, expected):
    assert capped_pairs(pairs_of(edges), first, second) == expected


def test_a_greedy_choice_would_be_smaller():
    """The maximum is needed: what a greedy choice leaves out depends on the order."""
    edges = [(2, 1), (0, 1), (2, 3)]
    used, greedy = set(), 0
    for a, b in edges:
        if a not in used and b not in used:
            used |= {a, b}
            greedy += 1
    assert (greedy, capped_pairs(pairs_of(edges), 1, 1)) == (1, 2)


@settings(max_examples=60, deadline=None)
@given(few_edges, caps, caps)
def test_no_node_and_no_edge_changes_a_flow_by_more_than_its_caps(edges, first, second):
    whole = capped_pairs(pairs_of(edges), first, second)
    for node in range(FEW_NODES):
        rest = [edge for edge in edges if node not in edge]
        change = whole - capped_pairs(pairs_of(rest), first, second)
        degree = len(edges) - len(rest)
        most = sum(degree if cap is None else cap for cap in (first, second))
        assert 0 <= change <= min(degree, most)
    for edge in edges:
        change = whole - capped_pairs(pairs_of(edges - {edge}), first, second)
        assert change in (0, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.sampled_from(list(combinations(range(FEW_NODES), 3))), max_size=20),
    st.integers(1, 3),
)
def test_no_node_changes_a_packing_by_more_than_its_cap(items, cap):
    def value(chosen):
        return capped_items(torch.tensor(sorted(chosen)).view(-1, 3).long(), FEW_NODES, cap)

    whole = value(items)
    assert 0 <= whole <= min(len(items), FEW_NODES * cap / 3 + ROUNDING)
    for node in range(FEW_NODES):
        rest = [item for item in items if node not in item]
        assert -1e-9 <= whole - value(rest) <= cap + ROUNDING
    for a, b in combinations(range(FEW_NODES), 2):
        rest = [item for item in items if not {a, b} <= set(item)]
        assert whole - value(rest) <= cap + ROUNDING


def test_packings_by_hand():
    triangle = torch.tensor([[0, 1, 2], [0, 3, 4], [0, 5, 6]])
    assert capped_items(triangle, 7, 1) == 1.0  # all contain the node 0
    assert capped_items(triangle, 7, 2) == 2.0
    assert capped_items(triangle, 7, 3) == 3.0
    pairs = torch.tensor([[0, 1], [1, 2], [2, 0]])
    assert abs(capped_items(pairs, 3, 1) - 1.5) <= ROUNDING  # half of each edge of a triangle
    assert capped_items(torch.empty(0, 3, dtype=torch.long), 3, 1) == 0.0


def test_a_hub_of_any_degree_changes_a_flow_by_its_caps():
    size = 2000
    leaves = torch.arange(1, size)
    star = torch.cat(
        [
            torch.stack([leaves, torch.zeros_like(leaves)]),
            torch.stack([leaves, leaves % 50 + size]),
        ],
        dim=1,
    )
    rest = star[:, star[1] != 0]
    assert 0 <= capped_pairs(star, 2, 2) - capped_pairs(rest, 2, 2) <= 2


def test_dropping_what_exceeds_a_degree_is_not_stable():
    """Why there is a flow: if a node with more than two edges loses all of them, the removal of
    one hub brings back as many edges as it has neighbours."""

    def truncated(edges):
        degree = torch.bincount(edges.reshape(-1), minlength=100)
        return int((degree[edges] <= 2).all(dim=0).sum())

    spokes = torch.arange(1, 31)
    hub = torch.stack([spokes, torch.zeros_like(spokes)])
    ring = torch.stack([spokes, spokes % 30 + 1])
    whole, rest = truncated(torch.cat([hub, ring], dim=1)), truncated(ring)
    assert rest - whole == 30
