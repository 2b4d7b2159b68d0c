"""Stable lists of children: the rule, node by node, and trees of the first children."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.sampler import stable_children, unroll_trees
from torch_geometric_cgt.sampler.stable_edges import distinct_pairs
from torch_geometric_cgt.utils.seeds import keyed_hash


def lists_one_by_one(edges, num_nodes, max_parents, max_children, key):
    """The same rule in loops."""
    pairs = sorted({*map(tuple, edges.t().tolist())})
    hashes = keyed_hash(torch.tensor(pairs).view(-1, 2).t(), key).tolist()
    order = {pair: (h, *pair) for pair, h in zip(pairs, hashes, strict=True)}
    chosen = []
    for u in range(num_nodes):
        out = sorted((pair for pair in pairs if pair[0] == u), key=order.get)
        chosen += out[:max_parents]
    into = [sorted((p for p in chosen if p[1] == v), key=order.get) for v in range(num_nodes)]
    return [[u for u, _ in pairs[:max_children]] for pairs in into]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*2 * [st.integers(0, n - 1)])))
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2**64 - 1),
)
def test_lists_equal_those_of_loops(graph, max_parents, max_children, key):
    n, pairs = graph
    edges = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    lists = stable_children(edges, n, max_parents, max_children, key)
    ptr, source = lists.ptr.tolist(), lists.source.tolist()
    ours = [source[ptr[v] : ptr[v + 1]] for v in range(n)]
    assert ours == lists_one_by_one(edges, n, max_parents, max_children, key)
    again = stable_children(edges.flip(1).repeat(1, 2), n, max_parents, max_children, key)
    assert torch.equal(again.source, lists.source) and torch.equal(again.ptr, lists.ptr)


def test_parallel_edges_are_one_and_a_self_loop_stays():
    edges = torch.tensor([[2, 0, 2, 1, 1], [0, 1, 0, 1, 0]])
    assert distinct_pairs(edges, 3).tolist() == [[0, 1, 1, 2], [1, 0, 1, 0]]
    lists = stable_children(edges, 3, 3, 3, key=0)
    assert lists.ptr.tolist() == [0, 2, 4, 4]
    assert sorted(lists.source[:2].tolist()) == [1, 2]
    assert sorted(lists.source[2:].tolist()) == [0, 1]


def test_another_key_chooses_other_edges():
    edges = torch.cartesian_prod(torch.arange(20), torch.arange(20)).t()
    one, other = (stable_children(edges, 20, 2, 3, key) for key in (1, 2))
    assert not torch.equal(one.source, other.source)


def test_trees_have_the_first_children_of_each_list():
    lists = InNeighbors(torch.tensor([0, 3, 5, 5, 6]), torch.tensor([1, 2, 3, 3, 0, 1]))
    trees = unroll_trees(lists, torch.tensor([0, 1, 2]), TreeShape.of([2, 1]))
    assert trees.tolist() == [[0, 1, 2, 3, -1], [1, 3, 0, 1, 1], [2, -1, -1, -1, -1]]
    empty = InNeighbors.from_edge_index(torch.empty(2, 0, dtype=torch.long), 2)
    assert unroll_trees(empty, torch.arange(2), TreeShape.of([2])).tolist() == [
        [0, -1, -1],
        [1, -1, -1],
    ]


@pytest.mark.parametrize('caps', [(0, 1), (1, 0)])
def test_caps_must_be_positive(caps):
    with pytest.raises(ValueError, match='must be a positive integer'):
        stable_children(torch.tensor([[0], [1]]), 2, *caps, key=0)
