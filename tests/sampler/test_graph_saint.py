import pytest
import torch
from torch_geometric.loader import graph_saint

from tests.helpers.graphs import random_graph
from tests.helpers.promises import check_promises
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.sampler import InNeighbors, SAINTSampler
from torch_geometric_cgt.sampler import graph_saint as module
from torch_geometric_cgt.sampler.graph_saint import random_walks


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
