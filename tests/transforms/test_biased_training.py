import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import shortest_path
from torch_geometric.data import Data
from torch_geometric.transforms import RandomNodeSplit
from torch_geometric.utils import to_undirected

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.transforms import BiasedTraining
from torch_geometric_cgt.transforms.biased_training import personalized_pagerank


def path_graph(num_nodes: int) -> Data:
    edge_index = torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)])
    data = Data(edge_index=to_undirected(edge_index), y=torch.zeros(num_nodes, dtype=torch.long))
    data.num_nodes = num_nodes
    data.train_mask = torch.arange(num_nodes) < 5
    return data


def spread(data: Data) -> float:
    """The mean distance between training nodes of one label."""
    n = data.num_nodes
    edges = coo_matrix((torch.ones(data.num_edges), data.edge_index.numpy()), shape=(n, n))
    hops = torch.from_numpy(shortest_path(edges, unweighted=True))
    nodes = [(data.train_mask & (data.y == label)).nonzero().view(-1) for label in data.y.unique()]
    return float(torch.stack([hops[i][:, i].mean() for i in nodes]).mean())


@settings(max_examples=40, deadline=None)
@given(
    alpha=st.one_of(st.none(), st.floats(0.01, 0.95)),
    num_seeds=st.integers(1, 4),
    seed=st.integers(0, 1000),
    num_train=st.integers(3, 80),
)
def test_sizes_and_labels_stay_and_masks_are_disjoint(alpha, num_seeds, seed, num_train):
    data = random_graph(seed=seed)
    data.y[5:9] = -1  # unlabelled nodes are in no split
    labelled = (data.y >= 0).nonzero().view(-1)
    for name, part in zip(MASKS, labelled.split([num_train, 10, 106 - num_train]), strict=True):
        data[name] = torch.zeros(120, dtype=torch.bool).index_fill_(0, part, True)
    transform = BiasedTraining(alpha, num_seeds, seed)
    out = transform(data.clone())
    for name in MASKS:
        assert out[name].sum() == data[name].sum()
    assert (out.train_mask.int() + out.val_mask.int() + out.test_mask.int()).max() == 1
    assert not (out.train_mask | out.val_mask | out.test_mask)[5:9].any()
    before, after = (torch.bincount(d.y[d.train_mask], minlength=3) for d in (data, out))
    assert torch.equal(before, after)
    again = transform(data.clone())
    assert all(torch.equal(out[name], again[name]) for name in MASKS)


def test_training_nodes_surround_the_seed_node():
    # On a path, closeness is distance: five nodes in a row, wherever the seed node is.
    for seed in range(5):
        chosen = BiasedTraining(0.3, seed=seed)(path_graph(40)).train_mask.nonzero().view(-1)
        assert chosen.tolist() == list(range(chosen[0], chosen[0] + 5))
    iid = BiasedTraining(None, seed=0)(path_graph(40)).train_mask.nonzero().view(-1)
    assert iid[-1] - iid[0] > 5


def test_larger_alpha_is_more_local():
    # A ring of 16 stars, neighbouring hubs linked: little decay reaches many hubs, much decay the
    # leaves of the first one.
    hub = torch.arange(16)
    leaf = torch.arange(16, 336)
    edge_index = torch.cat(
        [torch.stack([hub, hub.roll(-1)]), torch.stack([leaf, (leaf - 16) // 20])], dim=1
    )
    data = Data(edge_index=to_undirected(edge_index), num_nodes=336)
    data.y = torch.zeros(336, dtype=torch.long)
    data.train_mask = torch.arange(336) < 15
    mean = {
        alpha: sum(spread(BiasedTraining(alpha, seed=s)(data.clone())) for s in range(9)) / 9
        for alpha in (None, 0.001, 0.003, 0.3)
    }
    assert mean[None] > mean[0.001] > mean[0.003] > mean[0.3]


def test_nearly_the_same_nodes_are_tested(graph):
    data = RandomNodeSplit(num_val=0.1, num_test=0.4)(graph)
    data.train_mask[data.train_mask.nonzero().view(-1)[20:]] = False
    tests = [BiasedTraining(a, seed=3)(data.clone()).test_mask for a in (None, 0.01, 0.3)]
    assert all((test & tests[0]).sum() > 0.7 * tests[0].sum() for test in tests)


@pytest.mark.parametrize('alpha', [0.01, 0.3, 0.9])
def test_scores_are_those_of_the_inverse(alpha):
    graph = random_graph()
    start = torch.zeros(120, 2).index_put_(
        (torch.tensor([3, 7]), torch.tensor([0, 1])), torch.ones(2)
    )
    one_way = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    score = personalized_pagerank(one_way, start, alpha)  # directions do not count

    adj = torch.eye(120, dtype=torch.double)
    adj[graph.edge_index[0], graph.edge_index[1]] = 1
    norm = adj.sum(dim=1).rsqrt()
    inner = torch.eye(120, dtype=torch.double) - (1 - alpha) * norm[:, None] * adj * norm
    torch.testing.assert_close(
        score.double(), alpha * torch.linalg.solve(inner, start.double()), rtol=0, atol=1e-5
    )


def test_a_large_graph_needs_no_square_matrix():
    n = 100_000
    edge_index = torch.randint(n, (2, 300_000), generator=torch.Generator().manual_seed(0))
    data = Data(edge_index=edge_index, y=torch.arange(n) % 5, num_nodes=n)
    data.train_mask = torch.arange(n) < 1000
    assert BiasedTraining(0.3)(data).train_mask.sum() == 1000


def test_wrong_input(graph):
    for alpha in (0, 1, -0.1, 1.5, float('nan')):
        with pytest.raises(ValueError, match=f'got {alpha}'):
            BiasedTraining(alpha)
    with pytest.raises(ValueError, match='got 0'):
        BiasedTraining(0.3, num_seeds=0)
    with pytest.raises(SourceError, match='RandomNodeSplit'):
        BiasedTraining(0.3)(graph)
    graph.train_mask = torch.ones(120, 2, dtype=torch.bool)
    with pytest.raises(SourceError, match=r'\[120, 2\]'):
        BiasedTraining(0.3)(graph)
    graph.train_mask = torch.arange(120) < 100
    graph.test_mask = torch.arange(120) >= 90  # some are trained on, too
    with pytest.raises(SourceError, match="'test_mask' of 30"):
        BiasedTraining(0.3)(graph)
    with pytest.raises(SourceError, match="'y'"):
        BiasedTraining(0.3)(Data(edge_index=graph.edge_index, num_nodes=120))
    graph.train_mask[:] = False
    with pytest.raises(SourceError, match='No labelled node'):
        BiasedTraining(0.3)(graph)
    assert repr(BiasedTraining(0.3)) == 'BiasedTraining(alpha=0.3, num_seeds=1, seed=0)'
