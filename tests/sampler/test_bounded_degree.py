"""Capped samples: nobody is in more trees than the ledger counts with."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy import CappedSample
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.sampler.bounded_degree import cap_parents


def edges(num_nodes, num_edges, seed):
    rng = torch.Generator().manual_seed(seed)
    one_way = torch.randint(num_nodes, (2, num_edges), generator=rng)
    return torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(0, 120),
    st.integers(1, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 1000),
)
def test_nobody_is_in_more_trees_than_is_counted_with(n, m, max_parents, fan_outs, seed):
    edge_index, rng = edges(n, m, seed), torch.Generator().manual_seed(seed)
    kept = cap_parents(edge_index, n, max_parents, max(fan_outs), rng)
    assert torch.bincount(kept[0], minlength=n).max() <= max_parents
    assert torch.bincount(kept[1], minlength=n).max() <= max(fan_outs)
    known = set(map(tuple, edge_index.t().tolist()))
    assert set(map(tuple, kept.t().tolist())) <= known

    shape = TreeShape.of(fan_outs)
    tree = sample_trees(InNeighbors.from_edge_index(kept, n), torch.arange(n), shape, rng)
    sample = CappedSample(max_parents, len(fan_outs))
    for node in range(n):
        assert (tree == node).any(dim=1).sum() <= sample.trees_per_node
    child, parent = tree[:, 1:], tree[:, shape.parent[1:]]
    for a, b in kept.t().tolist():
        here = ((child == a) & (parent == b)) | ((child == b) & (parent == a))
        assert here.any(dim=1).sum() <= sample.trees_per_edge


def test_few_edges_stay_as_they_are():
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    kept = cap_parents(ring, 4, 1, 1)
    assert sorted(kept.t().tolist()) == sorted(ring.t().tolist())
