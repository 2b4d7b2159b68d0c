import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from torch_geometric_cgt import Quantize
from torch_geometric_cgt.errors import AnonymityError, SourceError, UnsupportedError
from torch_geometric_cgt.transforms.quantize import verify_sizes


@st.composite
def cases(draw):
    num_nodes = draw(st.integers(1, 60))
    k = draw(st.integers(1, num_nodes))
    num_clusters = draw(st.one_of(st.none(), st.integers(1, num_nodes // k)))
    kind = draw(st.sampled_from(['normal', 'duplicates', 'zero', 'binary', 'constant column']))
    num_features = draw(st.integers(1, 6))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    x = torch.randn(num_nodes, num_features, generator=rng)
    if kind == 'duplicates':
        x = x[torch.randint(max(1, num_nodes // 3), (num_nodes,), generator=rng)]
    elif kind == 'zero':
        x = torch.zeros_like(x)
    elif kind == 'binary':
        x = (x > 1.5).float()
    elif kind == 'constant column':
        x[:, 0] = 3.0
    return x.to(draw(st.sampled_from([torch.float32, torch.float64]))), k, num_clusters


@settings(max_examples=320, deadline=None, derandomize=True)
@given(cases())
def test_every_cluster_has_k_members_and_is_their_mean(case):
    x, k, num_clusters = case
    data = Quantize(k=k, num_clusters=num_clusters, seed=1)(Data(x=x))
    m = num_clusters or len(x) // k
    assert data.codebook.shape == (m, x.size(1)) and data.cluster.shape == (len(x),)
    for i in range(m):
        members = x[data.cluster == i]
        assert len(members) >= k
        assert torch.allclose(data.codebook[i], members.mean(dim=0), atol=1e-5)
    assert torch.equal(data.x, data.codebook[data.cluster])


def test_transform_leaves_its_input_alone(graph):
    before = graph.x.clone()
    out = Quantize(k=10)(graph)
    assert torch.equal(graph.x, before) and 'cluster' not in graph
    assert out.x.dtype == before.dtype and torch.equal(out.edge_index, graph.edge_index)


def test_close_rows_share_a_cluster():
    x = torch.cat([torch.zeros(5, 2), torch.full((7, 2), 9.0)])
    cluster = Quantize(k=5)(Data(x=x)).cluster
    assert cluster[:5].unique().numel() == cluster[5:].unique().numel() == 1
    assert cluster[0] != cluster[5]


def test_integer_features_are_taken_as_numbers():
    data = Quantize(k=2)(Data(x=torch.tensor([[0], [1], [10], [11]])))
    assert sorted(data.x.view(-1).tolist()) == [0.5, 0.5, 10.5, 10.5]


def test_negative_features_are_fine():
    assert Quantize(k=3)(Data(x=-torch.rand(9, 4))).codebook.max() < 0


def test_same_seed_same_clusters(graph):
    runs = [Quantize(k=10, seed=seed)(graph).cluster for seed in [0, 0]]
    assert torch.equal(*runs)


def test_a_clustering_below_k_is_never_released():
    with pytest.raises(AnonymityError, match='1 of 2 clusters have fewer than 3'):
        verify_sizes(torch.tensor([0, 0, 0, 1, 1]), 2, 3)
    with pytest.raises(AnonymityError):
        verify_sizes(torch.tensor([0, 0, 2]), 2, 1)


@pytest.mark.parametrize(
    'arguments, error, message',
    [
        ({'k': 0}, ValueError, "'k' must be at least 1 .got 0"),
        ({'num_clusters': 0}, ValueError, "'num_clusters' must be at least 1"),
        ({'method': 'magic'}, ValueError, "got 'magic'"),
        ({'method': 'dp'}, UnsupportedError, 'Differentially private'),
        ({'epsilon': 1.0}, UnsupportedError, 'Differentially private'),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Quantize(**arguments)


@pytest.mark.parametrize(
    'x, arguments, error, message',
    [
        (None, {}, SourceError, "no node features 'x'"),
        (torch.zeros(4), {}, SourceError, r'\[N, F\] matrix'),
        (torch.zeros(0, 3), {}, SourceError, 'non-empty'),
        (torch.tensor([[0.0], [float('nan')]]), {'k': 1}, SourceError, 'row 1, column 0'),
        (torch.tensor([[float('inf')]]), {'k': 1}, SourceError, 'finite'),
        (torch.zeros(5, 2), {'k': 6}, ValueError, 'k=6 for 5 nodes'),
        (torch.zeros(5, 2), {'k': 2, 'num_clusters': 3}, ValueError, 'at most 2 clusters'),
    ],
)
def test_wrong_features(x, arguments, error, message):
    with pytest.raises(error, match=message):
        Quantize(**arguments)(Data(x=x, num_nodes=5))


def test_repr_names_every_parameter():
    assert repr(Quantize(k=5, seed=2)) == (
        "Quantize(k=5, num_clusters=None, method='kmeans', epsilon=None, delta=None, "
        'seed=2, l=None, task_weight=None, num_components=64)'
    )
