import hashlib
from itertools import combinations

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.data import InNeighbors, TreeShape, tokens_of
from torch_geometric_cgt.sampler import (
    SAMPLERS,
    TreeDraws,
    edges_of_trees,
    neighbors,
    sample_positions,
    sample_trees,
)

# The trees of a seed: they stay the same bytes in every version.
TREES = [
    [0, 7, 2, 9, -1, -1, -1, -1, 0, 9],
    [1, 9, 7, 2, 0, 9, -1, -1, -1, -1],
    [4, 2, 9, 4, -1, -1, 9, 0, 0, 4],
    [5, 2, 0, 2, -1, -1, 2, 9, -1, -1],
    [12, -1, -1, -1, -1, -1, -1, -1, -1, -1],
]
ROOT_OF_TWO = TreeShape.of([2])


def test_every_subset_is_equally_likely():
    draws = 40_000
    out = sample_positions(torch.full((draws,), 5), 3, torch.Generator().manual_seed(0))
    subsets, counts = out.sort(dim=1).values.unique(dim=0, return_counts=True)
    assert subsets.tolist() == [list(subset) for subset in combinations(range(5), 3)]
    expected = draws / 10
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 27.9  # 9 degrees of freedom, p = 0.001


def test_positions_are_distinct_and_in_range():
    degree = torch.arange(200)
    for fan_out in [1, 2, 7, 20]:
        out = sample_positions(degree, fan_out, torch.Generator().manual_seed(fan_out))
        assert (out < degree[:, None]).all()
        for d, row in zip(degree.tolist(), out.tolist(), strict=True):
            drawn = [position for position in row if position >= 0]
            assert len(set(drawn)) == len(drawn) == min(d, fan_out)
            assert row[: len(drawn)] == drawn  # nulls come last


def test_last_position_of_a_huge_degree_can_be_drawn():
    degree = torch.full((200_000,), 2**26)
    out = sample_positions(degree, 1, torch.Generator().manual_seed(0))
    assert (out % 2 == 1).any() and int(out.max()) > 2**26 - 2**12


def test_memory_does_not_grow_with_the_largest_degree():
    # A hub of a million neighbours for 20,000 parents: a padded table of
    # neighbours would hold 2e10 entries.
    num_leaves = 1_000_000
    edge_index = torch.stack([torch.arange(1, num_leaves + 1), torch.zeros(num_leaves).long()])
    graph = InNeighbors.from_edge_index(edge_index, num_leaves + 1)
    tree = sample_trees(graph, torch.zeros(20_000).long(), TreeShape.of([5]))
    assert tree.shape == (20_000, 6) and tree[:, 1:].min() >= 1


def test_tree_of_a_path_by_hand():
    # 0 -> 1 -> 2, and a self-loop on 0
    edge_index = torch.tensor([[0, 1, 0], [1, 2, 0]])
    graph = InNeighbors.from_edge_index(edge_index, 4)
    tree = sample_trees(graph, torch.tensor([2, 0, 3]), TreeShape.of([2, 1]))
    assert tree.tolist() == [[2, 1, -1, 0, -1], [0, 0, -1, 0, -1], [3, -1, -1, -1, -1]]


def test_parallel_edges_count_each():
    graph = InNeighbors.from_edge_index(torch.tensor([[1, 1], [0, 0]]), 2)
    assert sample_trees(graph, torch.tensor([0]), TreeShape.of([3])).tolist() == [[0, 1, 1, -1]]


def test_same_seed_same_trees():
    edge_index = torch.randint(50, (2, 600), generator=torch.Generator().manual_seed(1))
    graph = InNeighbors.from_edge_index(edge_index, 50)
    runs = [
        sample_trees(
            graph, torch.arange(50), TreeShape.of([4, 3]), torch.Generator().manual_seed(s)
        )
        for s in [0, 0, 1]
    ]
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_no_roots():
    graph = InNeighbors.from_edge_index(torch.tensor([[1], [0]]), 2)
    assert sample_trees(graph, torch.empty(0).long(), TreeShape.of([2, 1])).shape == (0, 5)


def small_graph() -> InNeighbors:
    i = torch.arange(40)
    return InNeighbors.from_edge_index(torch.stack([(7 * i + i // 5) % 12, i * i % 11]), 13)


def test_trees_of_a_seed_are_fixed():
    root, rng = torch.tensor([0, 1, 4, 5, 12]), torch.Generator().manual_seed(0)
    assert sample_trees(small_graph(), root, TreeShape.of([3, 2]), rng).tolist() == TREES


@pytest.mark.parametrize('block', [neighbors.BLOCK_PARENTS, 9999])
def test_large_degrees_and_fan_outs_are_fixed(monkeypatch, block):
    monkeypatch.setattr(neighbors, 'BLOCK_PARENTS', block)
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


def test_draws_are_new_trees_of_the_same_roots():
    root, shape, rng = torch.tensor([12, 0, 1, 4, 5]), TreeShape.of([3, 2]), torch.Generator()
    draws = TreeDraws(small_graph(), root, shape, torch.arange(13) // 2, 7)
    index = torch.tensor([1, 2, 3, 4, 0])
    nodes = draws.nodes(index, rng.manual_seed(0))
    assert nodes.tolist() == TREES
    tokens = draws.tokens(index, rng.manual_seed(0))
    assert torch.equal(tokens, tokens_of(nodes, torch.arange(13) // 2, 7))
    again = draws.tokens(index, rng)
    assert torch.equal(again[:, 0], tokens[:, 0]) and not torch.equal(again, tokens)


def test_edges_by_hand():
    edge_index = torch.tensor([[1, 2, 0], [0, 0, 2]])
    tree = torch.tensor([[0, 2, 1, 0, -1, -1, -1], [1, -1, -1, -1, -1, -1, -1]])
    found = edges_of_trees(edge_index, tree, TreeShape.of([2, 2]))
    assert found.tolist() == [[-1, 1, 0, 2, -1, -1, -1], [-1] * 7]


@pytest.mark.parametrize('name', SAMPLERS)
def test_trees_of_every_sampler(name):
    data, shape = random_graph(60, 150), TreeShape.of([3, 2])
    graph = InNeighbors.from_edge_index(data.edge_index, 60)
    rng = torch.Generator().manual_seed(0)
    tree = SAMPLERS[name](graph, torch.arange(60), shape, rng)
    edge = edges_of_trees(data.edge_index, tree, shape, rng)
    real = tree[:, 1:] >= 0
    child, parent = data.edge_index[:, edge[:, 1:][real]]
    assert torch.equal(child, tree[:, 1:][real])
    assert torch.equal(parent, tree[:, shape.parent[1:]][real])
    assert bool((edge[:, 0] == -1).all()) and bool((edge[:, 1:][~real] == -1).all())


def test_equal_children_have_different_parallel_edges_and_all_occur():
    edge_index = torch.tensor([[1, 1, 1, 2], [0, 0, 0, 0]])
    rng = torch.Generator().manual_seed(0)
    found = edges_of_trees(edge_index, torch.tensor([[0, 1, 1]] * 200), ROOT_OF_TWO, rng)
    assert bool((found[:, 1] != found[:, 2]).all())
    assert found[:, 1].unique().tolist() == found[:, 2].unique().tolist() == [0, 1, 2]


def test_a_tree_of_another_graph_is_an_error():
    with pytest.raises(ValueError, match='not an in-neighbour'):
        edges_of_trees(torch.tensor([[1], [0]]), torch.tensor([[0, 2, -1]]), ROOT_OF_TWO)
    empty = torch.empty(2, 0, dtype=torch.long)
    assert edges_of_trees(empty, torch.tensor([[0, -1, -1]]), ROOT_OF_TWO).tolist() == [[-1] * 3]
