from itertools import permutations

import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.promises import children_of
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler import FastGCNSampler, InNeighbors, LADIESSampler
from torch_geometric_cgt.sampler.layerwise import column_norms, draw_nodes, out_degree

# 0 has the in-neighbours 1, 2 and 3; 1 and 2 have in-neighbours among 3, 4 and 5.
EDGES = torch.tensor([[1, 2, 3, 3, 4, 4, 5, 3, 5, 5], [0, 0, 0, 1, 1, 2, 2, 4, 4, 6]])


def normalised_adjacency() -> torch.Tensor:
    """By its definition, as a dense matrix."""
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    adjacency[EDGES[1], EDGES[0]] = 1  # row: target
    in_degree, out = adjacency.sum(1, keepdim=True), adjacency.sum(0, keepdim=True)
    return adjacency / (in_degree.clamp(min=1) * out.clamp(min=1)).sqrt()


def chi_square(counts: torch.Tensor, probability: torch.Tensor) -> float:
    expected = probability * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_column_norms_by_definition():
    graph = InNeighbors.from_edge_index(EDGES, 7)
    square = normalised_adjacency() ** 2
    node, norm = column_norms(graph, out_degree(graph))
    assert node.tolist() == [1, 2, 3, 4, 5]
    assert torch.allclose(norm, square.sum(0)[node])
    node, norm = column_norms(graph.rows(torch.tensor([2, -1, 1])), out_degree(graph))
    assert node.tolist() == [3, 4, 5]
    assert torch.allclose(norm, square[[1, 2]].sum(0)[node])


def test_nodes_are_drawn_one_after_the_other_by_weight():
    weight = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    rng = torch.Generator().manual_seed(0)
    draws = torch.stack([draw_nodes(torch.arange(3), weight, 2, rng) for _ in range(2000)])
    missing = 3 - draws.sum(dim=1)  # the one that was not drawn
    p = weight / weight.sum()
    # Pair {i, j}: i first and then j among the rest, or the other way round.
    pair = torch.tensor(
        [
            sum(float(p[i] * p[j] / (1 - p[i])) for i, j in permutations(set(range(3)) - {out}))
            for out in range(3)
        ]
    )
    assert chi_square(torch.bincount(missing, minlength=3), pair) < 13.8  # 2 df, p = 0.001
    assert draw_nodes(torch.arange(3), weight, 3).tolist() == [0, 1, 2]


def test_fastgcn_draws_by_columns_whatever_the_layer_above():
    graph = InNeighbors.from_edge_index(EDGES, 7)
    sampler = FastGCNSampler(batch_size=1, layer_size=1)
    root = torch.zeros(600, dtype=torch.long)
    tree = sampler(graph, root, TreeShape.of([2]), torch.Generator().manual_seed(1))
    assert (tree[:, 2] == -1).all()  # one node is drawn
    weight = (normalised_adjacency() ** 2).sum(0)
    p = weight / weight.sum()
    # Where 4 or 5 is drawn, which are no neighbours of 0, the child is null.
    probability = torch.stack([p[4] + p[5], p[1], p[2], p[3]])
    counts = torch.bincount(tree[:, 1].clamp(min=0), minlength=4)
    assert chi_square(counts, probability) < 16.3  # 3 df, p = 0.001


def test_ladies_draws_among_the_neighbours_by_the_rows_of_the_layer_above():
    graph = InNeighbors.from_edge_index(EDGES, 7)
    sampler = LADIESSampler(batch_size=1, layer_size=1)
    root = torch.zeros(600, dtype=torch.long)
    tree = sampler(graph, root, TreeShape.of([2]), torch.Generator().manual_seed(2))
    weight = normalised_adjacency()[0, 1:4] ** 2
    counts = torch.bincount(tree[:, 1], minlength=4)  # never null
    assert chi_square(counts[1:], weight / weight.sum()) < 13.8  # 2 df, p = 0.001


def test_ladies_weighs_the_second_layer_by_the_first():
    # Without the edge from 3 to 0: both neighbours of 0 are drawn, then two of 3, 4 and 5.
    edges = EDGES[:, [0, 1, 3, 4, 5, 6, 7, 8, 9]]
    graph = InNeighbors.from_edge_index(edges, 7)
    sampler = LADIESSampler(batch_size=1, layer_size=2)
    root = torch.zeros(400, dtype=torch.long)
    tree = sampler(graph, root, TreeShape.of([2, 2]), torch.Generator().manual_seed(3))
    assert (tree[:, 1:3] == torch.tensor([1, 2])).all()
    # Out-degrees 2, 2, 3 and rows 1 (from 3 and 4) and 2 (from 4 and 5), each of in-degree 2.
    p = torch.tensor([1 / 4, 1 / 4 + 1 / 4, 1 / 6])
    p = p / p.sum()
    pair = torch.tensor(
        [
            sum(float(p[i] * p[j] / (1 - p[i])) for i, j in permutations(set(range(3)) - {out}))
            for out in range(3)
        ]
    )
    drawn = torch.stack([(tree[:, 3:] == node).any(dim=1) for node in [3, 4, 5]], dim=1)
    assert (drawn.sum(dim=1) == 2).all()
    counts = (~drawn).sum(dim=0)
    assert chi_square(counts, pair) < 13.8  # 2 df, p = 0.001


@pytest.mark.parametrize('sampler', [FastGCNSampler, LADIESSampler])
def test_a_batch_shares_the_nodes_of_a_layer(sampler):
    data = random_graph(num_nodes=60, num_edges=200)
    graph = InNeighbors.from_edge_index(data.edge_index, 60)
    fan_out = int(torch.bincount(data.edge_index[1]).max())
    shape = TreeShape.of([fan_out, fan_out])
    tree = sampler(batch_size=60, layer_size=6)(
        graph, torch.arange(60), shape, torch.Generator().manual_seed(0)
    )
    neighbours = {i: set(graph.source[graph.ptr[i] : graph.ptr[i + 1]].tolist()) for i in range(60)}
    for layer in [1, 2]:
        drawn = set(tree[:, shape.layer_slice(layer)].unique().tolist()) - {-1}
        assert 1 <= len(drawn) <= 6
        slots = range(*shape.layer_slice(layer - 1).indices(shape.num_slots))
        for row in tree.tolist():
            for slot in slots:
                if row[slot] >= 0:  # no fan-out cuts: all drawn neighbours are children
                    assert set(children_of(row, slot, shape)) == drawn & neighbours[row[slot]]


@pytest.mark.parametrize('sampler', [FastGCNSampler, LADIESSampler])
def test_batches_draw_layers_of_their_own(sampler):
    data = random_graph(num_nodes=60, num_edges=200)
    graph = InNeighbors.from_edge_index(data.edge_index, 60)
    tree = sampler(batch_size=15, layer_size=6)(
        graph, torch.arange(60), TreeShape.of([20]), torch.Generator().manual_seed(0)
    )
    assert 6 < len(set(tree[:, 1:].unique().tolist()) - {-1}) <= 24


def test_more_drawn_neighbours_than_slots_are_chosen_uniformly():
    leaves = torch.arange(1, 6)
    graph = InNeighbors.from_edge_index(torch.stack([leaves, torch.zeros_like(leaves)]), 6)
    root = torch.zeros(6000, dtype=torch.long)
    for sampler in [FastGCNSampler(6000, 5), LADIESSampler(6000, 5)]:
        tree = sampler(graph, root, TreeShape.of([2]), torch.Generator().manual_seed(0))
        counts = torch.bincount(tree[:, 1:].reshape(-1), minlength=6)[1:]
        assert chi_square(counts, torch.full((5,), 0.2)) < 18.5  # 4 df, p = 0.001


@pytest.mark.parametrize('sampler', [FastGCNSampler, LADIESSampler])
def test_copies_of_a_hub_cost_its_degree_once(sampler):
    # 20,000 copies of a hub of 200,000 neighbours: a row for each copy would hold 4e9 edges.
    leaves = torch.arange(1, 200_001)
    graph = InNeighbors.from_edge_index(torch.stack([leaves, torch.zeros_like(leaves)]), 200_001)
    root = torch.zeros(20_000, dtype=torch.long)
    tree = sampler(batch_size=20_000, layer_size=50)(graph, root, TreeShape.of([5]))
    assert tree.shape == (20_000, 6) and tree[:, 1:].min() >= 1
    assert tree[:, 1:].unique().numel() == 50
