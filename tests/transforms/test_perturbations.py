import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import is_undirected, to_undirected

from tests.helpers.edges import edge_set
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.transforms import (
    AddAttributeNoise,
    AddNoisyEdges,
    AddRandomEdges,
    DropRandomEdges,
    Quantize,
    reidentification,
)


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
def test_wrong_input_of_added_edges(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_edges_with_attributes_cannot_be_invented():
    data = random_graph()
    data.edge_attr = torch.zeros(data.num_edges)
    with pytest.raises(ValueError, match=r'edge_attr'):
        AddRandomEdges(2)(data)


def test_repr_of_added_edges():
    assert repr(AddRandomEdges(2)) == 'AddRandomEdges(factor=2, seed=0)'


@pytest.mark.parametrize('share, left', [(0.0, 3), (0.34, 2), (0.5, 1), (1.0, 0)])
def test_deleted_edges_take_both_directions_and_their_attributes(share, left):
    edge_index = to_undirected(torch.tensor([[0, 1, 2], [1, 2, 3]]))
    weight = (10 * edge_index.min(dim=0).values + edge_index.max(dim=0).values).float()
    data = Data(edge_index=edge_index, edge_attr=weight, num_nodes=4)
    out = DropRandomEdges(share)(data)
    assert out.num_edges == 2 * left and is_undirected(out.edge_index)
    assert edge_set(out) <= edge_set(data)
    ends = out.edge_index
    assert torch.equal(
        out.edge_attr, (10 * ends.min(dim=0).values + ends.max(dim=0).values).float()
    )


def test_deletion_is_uniform():
    data = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4)
    kept = torch.zeros(4)
    for seed in range(400):
        kept[DropRandomEdges(0.5, seed)(data).edge_index[0]] += 1
    assert (kept - 200).abs().max() < 50


@pytest.mark.parametrize(
    'make, error, message',
    [
        (lambda: DropRandomEdges(50), ValueError, r"'share' must lie between 0 and 1 .got 50"),
        (lambda: DropRandomEdges(0.5)(Data(num_nodes=2)), SourceError, r"no 'edge_index'"),
    ],
)
def test_wrong_input_of_dropped_edges(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_repr_of_dropped_edges():
    assert repr(DropRandomEdges(0.5, seed=1)) == 'DropRandomEdges(share=0.5, seed=1)'


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


def test_wrong_input_of_noisy_edges(graph):
    with pytest.raises(ValueError, match='got -1'):
        AddNoisyEdges(-1)
    graph.edge_attr = torch.zeros(graph.num_edges)
    with pytest.raises(ValueError, match='edge_attr'):
        AddNoisyEdges(1)(graph)
    assert repr(AddNoisyEdges(2)) == 'AddNoisyEdges(num_edges=2, seed=0)'
    with pytest.raises(ValueError, match='edge_index'):
        AddNoisyEdges(1)(Data(x=torch.zeros(3, 1)))


def binary_graph():
    data = random_graph()
    data.x = (torch.rand(120, 40, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    return data


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(1, 12), st.floats(0, 0.5))
def test_attribute_noise_only_adds(seed, factor, density):
    rng = torch.Generator().manual_seed(seed)
    x = (torch.rand(20, 30, generator=rng) < density).float()
    out = AddAttributeNoise(factor, seed)(Data(x=x)).x
    assert bool((out >= x).all()) and bool(((out == 0) | (out == 1)).all())
    expected = (factor * x.sum(dim=1)).round().clamp(max=30)
    assert bool(((out.sum(dim=1) - expected).abs() <= 1).all())


def test_one_of_five_ones_is_an_original_one():
    data = binary_graph()
    transform = AddAttributeNoise(5, seed=3)
    noisy = transform(data)
    assert data.x is not noisy.x
    whole = data.x.sum(dim=1) * 5 <= 40
    share = float(data.x[whole].sum() / noisy.x[whole].sum())
    assert share == pytest.approx(transform.node_reidentification) == pytest.approx(0.2)
    assert torch.equal(transform(data).x, noisy.x)
    flipped = (noisy.x - data.x).sum(dim=0)  # no column is preferred
    assert flipped.max() < 3 * flipped.mean()
    sparse = data.clone()
    sparse.x = data.x.to_sparse()
    assert torch.equal(transform(sparse).x, noisy.x)


@pytest.mark.parametrize(
    'make, error, message',
    [
        (lambda: AddAttributeNoise(float('nan')), ValueError, r"'factor'"),
        (lambda: AddAttributeNoise(5)(random_graph()), SourceError, r"'x' must be binary"),
        (lambda: AddAttributeNoise(5)(Data(num_nodes=2)), SourceError, r'no feature matrix'),
    ],
)
def test_wrong_input_of_attribute_noise(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_repr_of_attribute_noise():
    assert repr(AddAttributeNoise(5)) == 'AddAttributeNoise(factor=5, seed=0)'


def test_the_table_of_the_paper():
    """(node, edge) probabilities, row by row."""
    noise = AddAttributeNoise(5)
    rows = [
        ([AddRandomEdges(2)], (1.0, 0.5)),
        ([AddRandomEdges(10)], (1.0, 0.1)),
        ([DropRandomEdges(0.5)], (1.0, 0.5)),
        ([DropRandomEdges(1.0)], (1.0, 0.0)),
        ([noise], (0.2, 1.0)),
        ([noise, AddRandomEdges(2)], (0.2, 0.5)),
        ([noise, AddRandomEdges(10)], (0.2, 0.1)),
        ([noise, DropRandomEdges(0.5)], (0.2, 0.5)),
        ([noise, DropRandomEdges(1.0)], (0.2, 0.0)),
        ([Quantize(k=5)], (0.2, 0.2)),
        ([Quantize(k=1000)], (0.001, 0.001)),
        ([], (1.0, 1.0)),
    ]
    for transforms, expected in rows:
        assert reidentification(transforms) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r'no re-identification probability for NormalizeFeatures'):
        reidentification([NormalizeFeatures()])
