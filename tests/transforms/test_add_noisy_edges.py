import pytest
import torch
from torch_geometric.data import Data

from torch_geometric_cgt.transforms import AddNoisyEdges


def test_every_node_gets_as_many_edges(graph):
    noisy = AddNoisyEdges(2, seed=1)(graph)
    before = torch.bincount(graph.edge_index[1], minlength=120)
    after = torch.bincount(noisy.edge_index[1], minlength=120)
    assert (after - before == 2).all()
    assert torch.equal(noisy.edge_index[:, : graph.num_edges], graph.edge_index)
    source = noisy.edge_index[0, graph.num_edges :]
    assert 0 <= source.min() and source.max() < 120 and source.unique().numel() > 80
    assert torch.equal(AddNoisyEdges(2, seed=1)(graph).edge_index, noisy.edge_index)


def test_no_noise_changes_nothing(graph):
    assert torch.equal(AddNoisyEdges(0)(graph).edge_index, graph.edge_index)


def test_wrong_input(graph):
    with pytest.raises(ValueError, match='got -1'):
        AddNoisyEdges(-1)
    graph.edge_attr = torch.zeros(graph.num_edges)
    with pytest.raises(ValueError, match='edge_attr'):
        AddNoisyEdges(1)(graph)
    assert repr(AddNoisyEdges(2)) == 'AddNoisyEdges(num_edges=2, seed=0)'
    with pytest.raises(ValueError, match='edge_index'):
        AddNoisyEdges(1)(Data(x=torch.zeros(3, 1)))
