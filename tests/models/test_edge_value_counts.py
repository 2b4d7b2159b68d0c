"""Counts of edge values for private builds: by hand, and their changes by every unit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.edge_value_counts import (
    count_edge_values,
    draw_by_label,
    edge_value_entry,
    label_given_token,
)

NODES, LABELS, VALUES = 7, 3, 2


def counts(edges, y, rate=1.0, capped=True):
    """Edges are tuples (child, parent, token)."""
    table = torch.tensor(edges, dtype=torch.long).view(-1, 3)
    return count_edge_values(table[:, :2].t(), table[:, 2], y, LABELS, VALUES, rate, capped)


def test_counts_by_hand():
    y = torch.tensor([0, 1, 2, -1])
    edges = [(1, 0, 0), (2, 0, 0), (2, 0, 1), (0, 1, 1), (1, 1, 0), (0, 3, 0), (0, 2, 1)]
    # Parallel edges have the smallest token; loops and parents without a label do not count.
    assert counts(edges, y, capped=False).tolist() == [2, 0, 0, 1, 0, 1]
    assert counts(edges, y).tolist() == [1, 0, 0, 1, 0, 1]  # one edge into node 0 per cell
    assert counts(edges, y, rate=0.0).tolist() == [0] * 6
    assert counts([], y).tolist() == [0] * 6


node = st.integers(0, NODES - 1)
edges_of = st.lists(st.tuples(node, node, st.integers(0, VALUES - 1)), max_size=40)
labels_of = st.lists(st.integers(-1, LABELS - 1), min_size=NODES, max_size=NODES)


@settings(max_examples=40, deadline=None)
@given(edges_of, labels_of, st.booleans(), st.data())
def test_no_unit_changes_the_counts_by_more_than_the_ledger_says(edges, labels, capped, data):
    y, changes = torch.tensor(labels), edge_value_entry(LABELS, VALUES, capped).changes
    rate = data.draw(st.sampled_from([1.0, 0.6]))
    base = counts(edges, y, rate, capped).double()

    def change(other_edges, other_y):
        return float((counts(other_edges, other_y, rate, capped) - base).norm()) - 1e-9

    for u, v in {tuple(sorted(edge[:2])) for edge in edges}:
        rest = [edge for edge in edges if set(edge[:2]) != {u, v}]
        assert change(rest, y) <= changes['edge']
    if not capped:
        assert changes.keys() == {'edge'}
        return
    for gone in range(NODES):
        unlabelled = y.clone()
        unlabelled[gone] = -1
        rest = [edge for edge in edges if gone not in edge[:2]]
        assert change(rest, unlabelled) <= changes['node']
        assert change(edges, unlabelled) <= changes['frozen_record']
        for label in range(LABELS):
            other = y.clone()
            other[gone] = label
            assert change(edges, other) <= changes['attributes']


def test_the_bound_of_a_node_is_reached():
    """The hub is the only child and the only parent of all cells, in both roles in its own row."""
    y = torch.tensor([0] + [0, 0, 1, 1, 2, 2] * 2)
    edges = [(0, i, i % 2) for i in range(1, 13)] + [(i, 0, i % 2) for i in range(1, 13)]
    unlabelled = y.clone()
    unlabelled[0] = -1
    found = (counts(edges, y) - counts([], unlabelled)).double().norm()
    assert float(found) == pytest.approx(edge_value_entry(LABELS, VALUES).changes['node'])


def test_draws_follow_the_label_of_the_parent():
    shape, n = TreeShape.of([1, 1]), 400
    tokens = torch.tensor([[0, 1, 1]] * n + [[1, 0, 2]] * n)  # token 2 is null
    y = torch.tensor([0] * n + [1] * n)
    share = torch.eye(2).double()  # label and edge token are equal
    evidence = label_given_token(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 1]), 2, 2)
    assert evidence.tolist() == [[2.5 / 3, 0.5 / 3], [0.5 / 3, 2.5 / 3]]
    drawn = draw_by_label(share, evidence, shape, tokens, y, torch.Generator().manual_seed(0))
    assert bool((drawn[:, 0] == 2).all()) and bool((drawn[n:, 2] == 2).all())
    assert bool((drawn[:, 1] == y).all())
    assert float(drawn[:n, 2].double().mean()) == pytest.approx(2.5 / 3, abs=0.07)
