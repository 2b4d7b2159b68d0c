import pytest
import torch
from torch_geometric.utils import is_undirected

from tests.helpers.edges import edge_set
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.transforms import AddRandomEdges


@pytest.mark.parametrize('factor', [1, 2, 10])
@pytest.mark.parametrize('undirected', [True, False])
def test_one_of_x_edges_is_an_original_one(factor, undirected):
    data = random_graph(num_edges=150)
    if not undirected:
        data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    transform = AddRandomEdges(factor, seed=1)
    noisy = transform(data)
    before, after = edge_set(data), edge_set(noisy)
    assert before <= after and noisy.num_edges == len(after)  # none of them twice
    assert is_undirected(noisy.edge_index) == undirected
    assert all(u != v for u, v in after - before)
    share = len(before) / len(after)
    assert share == pytest.approx(transform.edge_reidentification, rel=0.01)
    assert torch.equal(transform(data).edge_index, noisy.edge_index)
    order = noisy.edge_index[0] * 120 + noisy.edge_index[1]
    assert bool((order.diff() > 0).all())  # the place of an edge does not tell who it is
    if factor > 1:
        assert edge_set(AddRandomEdges(factor, seed=2)(data)) != after


@pytest.mark.parametrize(
    'make, error, message',
    [
        (lambda: AddRandomEdges(0.5), ValueError, r"'factor' must be at least 1 .got 0.5"),
        (lambda: AddRandomEdges(100)(random_graph(20, 40)), ValueError, r'only \d+ pairs of nodes'),
    ],
)
def test_wrong_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_edges_with_attributes_cannot_be_invented():
    data = random_graph()
    data.edge_attr = torch.zeros(data.num_edges)
    with pytest.raises(ValueError, match=r'edge_attr'):
        AddRandomEdges(2)(data)


def test_repr():
    assert repr(AddRandomEdges(2)) == 'AddRandomEdges(factor=2, seed=0)'
