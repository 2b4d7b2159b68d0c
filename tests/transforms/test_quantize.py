import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import Quantize
from torch_geometric_cgt.errors import BudgetError, SourceError
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.quantizer.private_kmeans_plan import STAGES
from torch_geometric_cgt.transforms.task_weight import WEIGHTS


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


@pytest.mark.parametrize(
    'arguments, error, message',
    [
        ({'k': 0}, ValueError, "'k' must be at least 1 .got 0"),
        ({'num_clusters': 0}, ValueError, "'num_clusters' must be at least 1"),
        ({'method': 'magic'}, ValueError, "got 'magic'"),
        ({'method': 'dp'}, ValueError, 'got epsilon=None'),
        ({'method': 'dp', 'epsilon': 0.0}, BudgetError, "'epsilon' must be positive"),
        ({'method': 'dp', 'epsilon': 1.0, 'delta': 2.0}, BudgetError, "'delta' must lie"),
        ({'method': 'dp', 'epsilon': 1.0, 'l': 2}, ValueError, "'l' is not for method='dp'"),
        ({'method': 'dp', 'epsilon': 1.0, 'dp_args': {'x': 1}}, ValueError, "in 'dp_args'.*'x'"),
        ({'epsilon': 1.0}, ValueError, "for method='dp' .got method='kmeans', epsilon=1.0"),
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
        'seed=2, l=None, task_weight=None, num_components=64, dp_args=None)'
    )


# Beyond k: sparse features, labels in clusters, the task


@pytest.mark.parametrize('layout', ['coo', 'csr'])
def test_sparse_features_give_the_clusters_of_dense_ones(layout):
    rng = torch.Generator().manual_seed(0)
    x = (torch.rand(200, 300, generator=rng) > 0.95).float()
    sparse = x.to_sparse() if layout == 'coo' else x.to_sparse_csr()
    dense = Quantize(k=10)(Data(x=x))
    out = Quantize(k=10).cluster(Data(x=sparse))
    assert torch.equal(out.cluster, dense.cluster)
    assert torch.allclose(out.codebook, dense.codebook)
    assert torch.equal(Quantize(k=10)(Data(x=sparse)).x, dense.x)


def test_sparse_features_must_be_finite():
    x = torch.tensor([[0.0, float('nan')], [1.0, 0.0]]).to_sparse()
    with pytest.raises(SourceError, match='finite'):
        Quantize(k=1)(Data(x=x))


@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
def test_the_codebook_has_the_type_of_the_features(dtype):
    data = Quantize(k=5)(Data(x=torch.randn(50, 3).to(dtype)))
    assert data.codebook.dtype == data.x.dtype == dtype


@pytest.mark.parametrize('method', ['kmeans', 'exact'])
def test_l_guarantees_distinct_labels(graph, method):
    out = Quantize(k=10, l=2, method=method).cluster(graph)
    for i in range(len(out.codebook)):
        members = out.cluster == i
        assert int(members.sum()) >= 10
        assert graph.y[members].unique().numel() >= 2
        assert torch.allclose(out.codebook[i], graph.x[members].mean(dim=0), atol=1e-5)


def test_homogeneous_clusters_are_warned_of(graph):
    with pytest.warns(UserWarning, match=r'\d+ of 12 clusters hold nodes of one label only'):
        Quantize(k=10)(graph)


def test_task_weight_makes_clusters_follow_the_labels():
    """Features say little of the label here: only the weight can bring it in."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(2, (400,), generator=rng)
    x = 3 * torch.randn(400, 20, generator=rng)
    x[:, 0] = x[:, 0] / 3 + 1.5 * y

    def purity(weight):
        out = Quantize(k=20, task_weight=weight).cluster(Data(x=x, y=y))
        assert torch.bincount(out.cluster).min() >= 20
        share = [y[out.cluster == i].float().mean() for i in range(len(out.codebook))]
        return float(torch.stack([torch.maximum(s, 1 - s) for s in share]).mean())

    assert purity(2.0) > purity(None) + 0.05


def test_task_weight_finds_itself(graph):
    out = Quantize(k=20, task_weight='auto').cluster(graph)
    assert out.task_weight in WEIGHTS
    again = Quantize(k=20, task_weight='auto').cluster(graph)
    assert torch.equal(out.cluster, again.cluster)


@pytest.mark.parametrize('argument', [{'l': 2}, {'task_weight': 'auto'}])
def test_labels_are_needed_for_what_needs_them(argument):
    with pytest.raises(SourceError, match='needs integer labels'):
        Quantize(k=2, **argument)(Data(x=torch.zeros(10, 2)))


@pytest.mark.parametrize('wrong', [-1, 'much', float('nan'), True])
def test_wrong_task_weight(wrong):
    with pytest.raises(ValueError, match='task_weight'):
        Quantize(task_weight=wrong)
    with pytest.raises(ValueError, match="'l' must be"):
        Quantize(l=0)


def test_more_memory_than_there_is_is_refused_before_it_is_taken(monkeypatch):
    from torch_geometric_cgt.errors import NotEnoughMemoryError
    from torch_geometric_cgt.utils import checks

    monkeypatch.setattr(checks, 'available_memory', lambda device='cpu': 1000)
    with pytest.raises(NotEnoughMemoryError, match=r'GiB are available: .*'):
        Quantize(k=5)(Data(x=torch.randn(500, 80)))


def test_the_weight_of_the_task_is_found_on_some_of_many_rows(monkeypatch):
    graph = random_graph(num_nodes=1200, num_edges=3000)
    weights, sizes = [], []
    fit = FlowKMeans.fit

    def spy(self, x, y=None):
        sizes.append(len(x))
        return fit(self, x, y)

    module = importlib.import_module('torch_geometric_cgt.transforms.task_weight')
    monkeypatch.setattr(FlowKMeans, 'fit', spy)
    for rows in [400, 50_000]:
        monkeypatch.setattr(module, 'TRIAL_ROWS', rows)
        out = Quantize(k=20, task_weight='auto').cluster(graph)
        assert int(torch.bincount(out.cluster).min()) >= 20  # the release is of all rows
        weights.append(out.task_weight)
    assert set(sizes) == {400, 1200} and sizes.count(1200) >= 2
    assert set(weights) <= set(WEIGHTS)


# Differential privacy


def test_a_private_codebook(graph):
    transform = Quantize(method='dp', epsilon=8.0, delta=1e-3, seed=1)
    out = transform.cluster(graph)
    assert out.cluster.shape == graph.y.shape
    assert out.codebook.shape[1] == graph.x.size(1) and out.codebook.dtype == graph.x.dtype
    ledger = Ledger(STAGES, out.entries)
    assert 7.8 < ledger.total('node', 1e-3).epsilon <= 8.0
    again = transform.cluster(graph)  # the seed does not decide on the noise
    assert out.codebook.shape != again.codebook.shape or not torch.equal(
        out.codebook, again.codebook
    )


def test_private_quantization_of_a_graph(graph):
    x = graph.x.clone()
    data = Quantize(method='dp', epsilon=20.0, delta=1e-3, num_clusters=6)(graph)
    assert torch.equal(data.x, data.codebook[data.cluster]) and data.x.shape == x.shape
    assert 3 <= data.codebook.size(0) <= 6
    # Features come as directions here: what is left of them tells the labels apart.
    share = max(
        float((data.cluster[graph.y == label] == c).float().mean())
        for label in range(3)
        for c in range(data.codebook.size(0))
    )
    assert share > 0.5


def test_without_labels_and_in_a_public_space(graph):
    graph.y = None
    out = Quantize(
        method='dp',
        epsilon=20.0,
        delta=1e-3,
        dp_args={'space': 'projected', 'n_components': 4, 'num_steps': 1},
    ).cluster(graph)
    assert out.codebook.shape[1] == 4 and int(out.cluster.max()) < out.codebook.size(0)


def test_a_private_codebook_needs_a_small_delta(graph):
    with pytest.raises(BudgetError, match=r"'delta' must not exceed 1 / n.*120 rows"):
        Quantize(method='dp', epsilon=8.0, delta=0.05)(graph)
