"""The edges that trees walk along: by hand, parallel edges, and all samplers."""

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.sampler import SAMPLERS, edges_of_trees

ROOT_OF_TWO = TreeShape.of([2])


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
