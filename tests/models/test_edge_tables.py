"""Tables of edge tokens, and private counts that no unit changes by more than its bound."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.edge_tables import (
    EdgeTables,
    count_edge_values,
    draw_by_label,
    edge_value_entry,
    label_given_token,
)

SHAPE, NUM_TOKENS, CLASSES, VALUES = TreeShape.of([2, 1]), 2, 2, 3
NODES, LABELS, NUM_VALUES = 7, 3, 2
node = st.integers(0, NODES - 1)
edges_of = st.lists(st.tuples(node, node, st.integers(0, NUM_VALUES - 1)), max_size=40)
labels_of = st.lists(st.integers(-1, LABELS - 1), min_size=NODES, max_size=NODES)


def fitted(tokens, y, nodes, edge_tokens, k):
    tables = EdgeTables(VALUES, NUM_TOKENS, CLASSES, torch.tensor([0, 1]), SHAPE)
    tables.fit(tokens, y, nodes, edge_tokens, k)
    return tables


def source(n, edge_tokens, child_token=0):
    """Roots with one child each and no grandchildren; all nodes are distinct."""
    tokens = torch.tensor([[0, child_token, 2, 2, 2]] * n)
    nodes = torch.full((n, 5), -1)
    nodes[:, 0], nodes[:, 1] = torch.arange(n), n + torch.arange(n)
    edges = torch.full((n, 5), VALUES)
    edges[:, 1] = edge_tokens
    return tokens, torch.arange(n) % 2, nodes, edges


def draw(tables, tokens, y, seed=0):
    return tables.draw(tokens, y, torch.Generator().manual_seed(seed))


def test_values_depend_on_the_label():
    n = 400
    tokens, y, nodes, edges = source(n, torch.arange(n) % 2)  # label and edge token are equal
    drawn = draw(fitted(tokens, y, nodes, edges, k=30), tokens, y)
    assert bool((drawn[:, [0, 2, 3, 4]] == VALUES).all())  # roots and null slots
    assert float((drawn[:, 1] == y).double().mean()) > 0.9


def test_values_depend_on_parent_and_child():
    n = 400
    tokens, y, nodes, edges = source(n, torch.arange(n) // 2 % 2)
    tokens[:, 1] = edges[:, 1]  # the token of the child decides
    drawn = draw(fitted(tokens, y, nodes, edges, k=30), tokens, y)
    assert float((drawn[:, 1] == tokens[:, 1]).double().mean()) > 0.9


def test_siblings_agree_as_in_the_source():
    n = 600
    tokens = torch.tensor([[0, 0, 0, 2, 2]] * n)
    nodes = torch.full((n, 5), -1)
    nodes[:, :3] = torch.arange(3 * n).view(n, 3)
    edges = torch.full((n, 5), VALUES)
    edges[:, 1] = edges[:, 2] = torch.arange(n) // 2 % 2
    drawn = draw(
        fitted(tokens, torch.arange(n) % 2, nodes, edges, k=30), tokens, torch.arange(n) % 2
    )
    assert float((drawn[:, 1] == drawn[:, 2]).double().mean()) > 0.9
    assert 0.35 < float(drawn[:, 1].double().mean()) < 0.65


@pytest.mark.parametrize('shared', ['parent', 'child'])
def test_a_context_of_few_nodes_is_not_used(shared):
    """Twenty edges with a value of their own; one node is at all of them. Only the coarse
    distribution may know the value."""
    n, few = 400, 20
    tokens, y, nodes, edges = source(n, 0)
    tokens[:few, 1], edges[:few, 1] = 1, 2
    free = fitted(tokens, y, nodes, edges, k=5)
    assert float((draw(free, tokens, y)[:few, 1] == 2).double().mean()) > 0.5  # it could fail
    nodes[:few, 0 if shared == 'parent' else 1] = 0
    bound = fitted(tokens, y, nodes, edges, k=5)
    drawn = [draw(bound, tokens, y, seed)[:few, 1] for seed in range(20)]
    assert float((torch.cat(drawn) == 2).double().mean()) < 0.15
    for table in bound.tables[:2]:  # no context with the token of these children is known
        assert table.context.numel() == free.tables[0].context.numel() - 2


def test_a_source_without_edges_gives_values_of_equal_chance():
    tokens, y, nodes, edges = source(10, VALUES, child_token=2)
    tables = fitted(tokens, y, nodes, edges, k=2)
    assert tables.tables == [] and tables.overall.tolist() == [1 / 3] * 3
    real = torch.tensor([[0, 1, 2, 2, 2]] * 300)
    drawn = draw(tables, real, torch.zeros(300).long())[:, 1]
    assert int(torch.bincount(drawn, minlength=3).min()) > 60


def counts(edges, y, rate=1.0, capped=True):
    """Edges are tuples (child, parent, token)."""
    table = torch.tensor(edges, dtype=torch.long).view(-1, 3)
    return count_edge_values(table[:, :2].t(), table[:, 2], y, LABELS, NUM_VALUES, rate, capped)


def test_counts_by_hand():
    y = torch.tensor([0, 1, 2, -1])
    edges = [(1, 0, 0), (2, 0, 0), (2, 0, 1), (0, 1, 1), (1, 1, 0), (0, 3, 0), (0, 2, 1)]
    # Parallel edges have the smallest token; loops and parents without a label do not count.
    assert counts(edges, y, capped=False).tolist() == [2, 0, 0, 1, 0, 1]
    assert counts(edges, y).tolist() == [1, 0, 0, 1, 0, 1]  # one edge into node 0 per cell
    assert counts(edges, y, rate=0.0).tolist() == [0] * 6
    assert counts([], y).tolist() == [0] * 6


@settings(max_examples=40, deadline=None)
@given(edges_of, labels_of, st.booleans(), st.data())
def test_no_unit_changes_the_counts_by_more_than_the_ledger_says(edges, labels, capped, data):
    y, changes = torch.tensor(labels), edge_value_entry(LABELS, NUM_VALUES, capped).changes
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
    assert float(found) == pytest.approx(edge_value_entry(LABELS, NUM_VALUES).changes['node'])


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
