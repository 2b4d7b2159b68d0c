"""Tables of edge tokens: what they are drawn from, and when they back off."""

import pytest
import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.edge_tables import EdgeTables

SHAPE, NUM_TOKENS, CLASSES, VALUES = TreeShape.of([2, 1]), 2, 2, 3


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
