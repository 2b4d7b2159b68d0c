"""Capped counts: exact values by hand, and their change by every node and every edge."""

from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.privacy.capped_counts import ROUNDING, capped_items, capped_pairs

NODES = 7


def pairs_of(edges):
    return torch.tensor(sorted(edges), dtype=torch.long).view(-1, 2).t()


edge_sets = st.sets(st.sampled_from(list(permutations(range(NODES), 2))), max_size=24)
caps = st.one_of(st.none(), st.integers(1, 3))


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
@given(edge_sets, caps, caps)
def test_no_node_and_no_edge_changes_a_flow_by_more_than_its_caps(edges, first, second):
    whole = capped_pairs(pairs_of(edges), first, second)
    for node in range(NODES):
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
    st.sets(st.sampled_from(list(combinations(range(NODES), 3))), max_size=20), st.integers(1, 3)
)
def test_no_node_changes_a_packing_by_more_than_its_cap(items, cap):
    def value(chosen):
        return capped_items(torch.tensor(sorted(chosen)).view(-1, 3).long(), NODES, cap)

    whole = value(items)
    assert 0 <= whole <= min(len(items), NODES * cap / 3 + ROUNDING)
    for node in range(NODES):
        rest = [item for item in items if node not in item]
        assert -1e-9 <= whole - value(rest) <= cap + ROUNDING
    for a, b in combinations(range(NODES), 2):
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
