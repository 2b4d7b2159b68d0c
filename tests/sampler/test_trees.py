"""Trees stay what they were: the same seed gives the same bytes in every version."""

import hashlib

import pytest
import torch

from torch_geometric_cgt.data import TreeShape, tokens_of
from torch_geometric_cgt.sampler import InNeighbors, sample_trees, trees

TREES = [
    [0, 7, 2, 9, -1, -1, -1, -1, 0, 9],
    [1, 9, 7, 2, 0, 9, -1, -1, -1, -1],
    [4, 2, 9, 4, -1, -1, 9, 0, 0, 4],
    [5, 2, 0, 2, -1, -1, 2, 9, -1, -1],
    [12, -1, -1, -1, -1, -1, -1, -1, -1, -1],
]


def small_graph() -> InNeighbors:
    i = torch.arange(40)
    return InNeighbors.from_edge_index(torch.stack([(7 * i + i // 5) % 12, i * i % 11]), 13)


def test_trees_of_a_seed_are_fixed():
    root, rng = torch.tensor([0, 1, 4, 5, 12]), torch.Generator().manual_seed(0)
    assert sample_trees(small_graph(), root, TreeShape.of([3, 2]), rng).tolist() == TREES


@pytest.mark.parametrize('block', [trees.BLOCK, 9999])
def test_large_degrees_and_fan_outs_are_fixed(monkeypatch, block):
    monkeypatch.setattr(trees, 'BLOCK', block)
    i = torch.arange(20_000)
    edge_index = torch.stack([7919 * i % 499, (i * i + i // 3) % 491])  # degrees from 0 to 84
    graph = InNeighbors.from_edge_index(edge_index, 500)
    root, rng = torch.arange(500).repeat(20), torch.Generator().manual_seed(1)
    tree = sample_trees(graph, root, TreeShape.of([5, 30, 2]), rng)
    digest = hashlib.sha256(tree.numpy().tobytes()).hexdigest()
    assert digest.startswith('8e085e1369ed915b')


def test_graph_without_edges():
    graph = InNeighbors.from_edge_index(torch.empty(2, 0, dtype=torch.long), 2)
    tree = sample_trees(graph, torch.tensor([1, 0]), TreeShape.of([2]))
    assert tree.tolist() == [[1, -1, -1], [0, -1, -1]]
    assert sample_trees(graph, torch.arange(0), TreeShape.of([2, 2])).shape == (0, 7)


def test_calls_copy_neither_the_edges_nor_the_clusters():
    graph = small_graph()
    graph = InNeighbors(graph.ptr, graph.source.repeat(50_000))  # 16 MB
    cluster = torch.zeros(2_000_000, dtype=torch.long)
    with torch.profiler.profile(profile_memory=True) as profile:
        tree = sample_trees(graph, torch.tensor([0]), TreeShape.of([3, 2]))
        tokens_of(tree, cluster, 7)
    assert 0 < max(event.cpu_memory_usage for event in profile.events()) < 100_000


def test_tokens_of_trees_with_nulls():
    tokens = tokens_of(torch.tensor(TREES), torch.arange(13) // 2, 7)
    assert tokens[0].tolist() == [0, 3, 1, 4, 7, 7, 7, 7, 0, 4]
    assert tokens[4].tolist() == [6] + 9 * [7]
    columns = tokens_of(torch.tensor(TREES).t(), torch.arange(13) // 2, 7)  # not contiguous
    assert torch.equal(columns.t(), tokens)
