import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import RandomNodeLoader, graph_saint

from tests.helpers.graphs import random_graph
from tests.helpers.promises import check_promises
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.sampler import InNeighbors, SAINTSampler, SubgraphSampler
from torch_geometric_cgt.sampler import subgraphs as module
from torch_geometric_cgt.sampler.subgraphs import random_walks


def test_trees_never_leave_their_subgraph_and_miss_nothing_inside():
    data = random_graph(num_edges=600)
    part = torch.randint(6, (120,), generator=torch.Generator().manual_seed(0))
    sampler = SubgraphSampler([(part == i).nonzero().view(-1) for i in range(6)])
    tree = DuplicateEncode([20, 2], sampler=sampler)(data).tree
    for row in tree.tolist():
        assert {int(part[node]) for node in row if node >= 0} == {int(part[row[0]])}
        sources = data.edge_index[0, data.edge_index[1] == row[0]]
        inside = sources[part[sources] == part[row[0]]].tolist()
        assert sorted(node for node in row[1:21] if node >= 0) == sorted(inside)


def test_a_root_in_several_subgraphs_gets_each_as_often():
    # Each of 900 roots has one neighbour in each of three subgraphs.
    root, leaf = torch.arange(900), torch.arange(900, 903)
    edge_index = torch.stack([leaf.repeat(900), root.repeat_interleave(3)])
    sampler = SubgraphSampler([torch.cat([leaf[i, None], root, root]) for i in [2, 0, 1]])
    tree = sampler(
        InNeighbors.from_edge_index(edge_index, 903),
        root,
        TreeShape.of([3]),
        torch.Generator().manual_seed(0),
    )
    assert (tree[:, 2:] == -1).all()
    counts = torch.bincount(tree[:, 1] - 900, minlength=3)
    assert float(((counts - 300) ** 2 / 300).sum()) < 13.8  # 2 df, p = 0.001


def test_subgraphs_of_a_loader_of_pyg():
    data = random_graph(num_edges=600)
    data.n_id = torch.arange(120)
    transform = DuplicateEncode([3, 3], sampler=SubgraphSampler(RandomNodeLoader(data, 4)))
    assert repr(transform).endswith('sampler=SubgraphSampler(RandomNodeLoader))')
    tree = transform(data).tree
    assert tree[:, 0].tolist() == list(range(120)) and (tree[:, 1:] >= 0).any()


def test_an_iterator_serves_more_than_one_call():
    data = random_graph()
    transform = DuplicateEncode([2], sampler=SubgraphSampler(iter([torch.arange(120)])))
    assert transform(data).num_nodes > 120
    assert transform(data).num_nodes > 120


@pytest.mark.parametrize(
    'subgraphs, message',
    [
        ([torch.arange(5)], '115 of 120 roots in none, e.g. node 5'),
        ([], '120 of 120'),
        ([torch.tensor([0, 120])], 'from 0 to 119 .got 0 to 120'),
        ([torch.ones(120, dtype=torch.bool)], 'torch.bool of shape .120.'),
        ([Data(x=torch.zeros(3, 1))], r"'n_id'.*got Data\(x=\[3, 1\]\)"),
        ([[0, 1]], r'got \[0, 1\]'),
    ],
)
def test_wrong_subgraphs(subgraphs, message):
    with pytest.raises(ValueError, match=message):
        DuplicateEncode([2], sampler=SubgraphSampler(subgraphs))(random_graph())


def path() -> InNeighbors:
    """0 <- 1 <- 2 <- 3 <- 4"""
    return InNeighbors.from_edge_index(torch.tensor([[1, 2, 3, 4], [0, 1, 2, 3]]), 5)


def test_walks_go_to_in_neighbours_and_rest_where_there_are_none():
    assert random_walks(path(), torch.tensor([0, 3]), 3).tolist() == [[0, 1, 2, 3], [3, 4, 4, 4]]


def test_walks_are_uniform():
    edge_index = torch.tensor([[1, 2, 3], [0, 0, 0]])
    graph = InNeighbors.from_edge_index(edge_index, 4)
    start = torch.zeros(3000, dtype=torch.long)
    walk = random_walks(graph, start, 1, torch.Generator().manual_seed(0))
    counts = torch.bincount(walk[:, 1], minlength=4)[1:]
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 13.8  # 2 df, p = 0.001


def test_trees_end_where_the_walk_ends():
    sampler = SAINTSampler(batch_size=1, walk_length=2, backend='torch')
    tree = sampler(path(), torch.tensor([0]), TreeShape.of([1, 1, 1]))
    assert tree.tolist() == [[0, 1, 2, -1]]


def test_trees_never_leave_the_walks(monkeypatch):
    data = random_graph(num_edges=600)
    handed = []

    def spy(graph, subgraphs, root, shape, generator):
        handed.extend(subgraphs)
        tree = sample_trees_within(graph, subgraphs, root, shape, generator)
        sets = [set(nodes.tolist()) for nodes in subgraphs]
        for row in tree.tolist():
            assert any(set(row) - {-1} <= nodes for nodes in sets)
        return tree

    sample_trees_within = module.sample_trees_within
    monkeypatch.setattr(module, 'sample_trees_within', spy)
    sampler = SAINTSampler(batch_size=20, walk_length=2, backend='torch')
    DuplicateEncode([4, 2], seed=0, sampler=sampler)(data)
    assert [nodes.numel() for nodes in handed] == [60] * 6  # each node starts one walk
    starts = torch.cat([nodes.view(20, 3)[:, 0] for nodes in handed])
    assert sorted(starts.tolist()) == list(range(120))


def test_without_torch_sparse(monkeypatch):
    def missing(*args, **kwargs):
        raise ImportError("'SparseTensor' requires 'torch-sparse'")

    monkeypatch.setattr(graph_saint, 'SparseTensor', missing)
    data = random_graph()
    with pytest.raises(UnsupportedError, match=r"with torch-sparse, .*'torch' or 'auto'"):
        DuplicateEncode([2], sampler=SAINTSampler(backend='pyg'))(data)
    trees = [
        DuplicateEncode([2], seed=0, sampler=SAINTSampler(20, backend=backend))(data).tree
        for backend in ['auto', 'torch']
    ]
    assert torch.equal(*trees)


@pytest.mark.native
@pytest.mark.parametrize('num_edges', [0, 300])
def test_walks_of_pyg(num_edges):
    pytest.importorskip('torch_sparse', reason='needs torch-sparse: make test-native')
    data = random_graph(num_edges=num_edges)
    state = torch.get_rng_state()
    trees = [
        DuplicateEncode([3, 2], seed=seed, sampler=SAINTSampler(30, backend='pyg'))(data).tree
        for seed in [0, 0, 1]
    ]
    assert torch.equal(trees[0], trees[1])
    assert num_edges == 0 or not torch.equal(trees[0], trees[2])
    assert torch.equal(torch.get_rng_state(), state)
    check_promises(trees[0], torch.arange(120), data.edge_index, TreeShape.of([3, 2]))


@pytest.mark.native
def test_walks_of_pyg_go_to_in_neighbours():
    pytest.importorskip('torch_sparse', reason='needs torch-sparse: make test-native')
    sampler = SAINTSampler(batch_size=1, walk_length=2, backend='pyg')
    subgraphs = {tuple(nodes.tolist()) for nodes in sampler._from_pyg(path(), None)}
    assert subgraphs <= {(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4), (4,)}
