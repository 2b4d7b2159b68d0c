"""Counts of edges for private models: values by hand, and changes by every node and edge."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.models import edge_counts
from torch_geometric_cgt.models.edge_counts import EdgeCaps, EdgeCounter

NODES, LABELS, FAN_OUT = 8, 3, 3


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
