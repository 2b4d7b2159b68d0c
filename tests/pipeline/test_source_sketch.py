"""Sketches estimate how many nodes two sources have in common."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.pipeline import check_source, source_sketch
from torch_geometric_cgt.pipeline.source_sketch import SIZE, SourceSketch, hash_rows


def sketch(graph) -> SourceSketch:
    return SourceSketch.of(check_source(graph))


def part(graph, keep) -> Data:
    edges, _ = subgraph(keep, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(x=graph.x[keep], y=graph.y[keep], edge_index=edges)


@settings(max_examples=20, deadline=None)
@given(st.integers(100, 400), st.floats(0.0, 1.0), st.integers(0, 99))
def test_small_sources_are_compared_exactly(num_nodes, share, seed):
    graph = random_graph(num_nodes, 2 * num_nodes, seed=seed)
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
    size = max(3, int(share * num_nodes))
    keep = order[:size]
    assert sketch(graph).share_in_common(sketch(part(graph, keep))) == pytest.approx(1.0)
    half, rest = order[: num_nodes // 2], order[num_nodes // 2 :]
    apart = sketch(part(graph, half)).share_in_common(sketch(part(graph, rest)))
    assert apart == 0.0
    both = torch.cat([half, rest[: len(rest) // 3]])
    found = sketch(part(graph, both)).share_in_common(sketch(part(graph, rest)))
    assert found == pytest.approx((len(rest) // 3) / len(rest))


@pytest.mark.parametrize('share', [0.5, 0.8, 0.95])
def test_large_sources_are_compared_approximately(share):
    graph = random_graph(6 * SIZE, 100)
    size = 3 * SIZE
    first, moved = torch.arange(size), torch.arange(size) + round((1 - share) * size)
    found = sketch(part(graph, first)).share_in_common(sketch(part(graph, moved)))
    assert found == pytest.approx(share, abs=0.05)


def test_order_layout_type_and_labels_do_not_matter():
    graph = random_graph()
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    assert sketch(part(graph, order)).rows == sketch(graph).rows
    graph.x = (graph.x > 0.5).float() * graph.x
    hashes = hash_rows(graph.x)
    assert torch.equal(hashes, hash_rows(graph.x.double()))
    assert torch.equal(hashes, hash_rows(graph.x.to_sparse()))
    assert torch.equal(hashes, hash_rows(graph.x.to_sparse_csr()))
    assert torch.equal(hash_rows(-graph.x * 0), hash_rows(graph.x * 0))
    other = graph.clone()
    other.y = 2 - other.y
    assert sketch(graph).share_in_common(sketch(other)) == 1.0


def check_few_features(compare) -> None:
    """Nodes with few different features are compared by their neighbourhoods."""
    graphs = [random_graph(seed=seed) for seed in (0, 1)]
    for graph in graphs:
        graph.x = torch.nn.functional.one_hot(graph.y, 3).float()
    first, second = map(sketch, graphs)
    assert not first.is_distinct
    assert compare(first, second) < 0.6
    without_one = part(graphs[0], torch.arange(119))
    assert compare(first, sketch(without_one)) > 0.9


def test_few_different_features():
    check_few_features(SourceSketch.share_in_common)
    with pytest.raises(AssertionError):  # features alone would equate both graphs
        check_few_features(
            lambda a, b: source_sketch._containment(a.rows, b.rows, a.num_nodes, b.num_nodes)
        )
