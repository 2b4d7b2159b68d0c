import pytest
import torch
import torch_geometric.typing
from torch_geometric.loader import ClusterData

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.errors import UnsupportedError
from torch_geometric_cgt.sampler import ClusterSampler, InNeighbors
from torch_geometric_cgt.sampler import cluster_gcn as module
from torch_geometric_cgt.sampler.cluster_gcn import partition


def communities(num: int, size: int, seed: int = 0) -> InNeighbors:
    """Groups of nodes with nine edges in ten among themselves."""
    rng = torch.Generator().manual_seed(seed)
    source = torch.randint(num * size, (10 * num * size,), generator=rng)
    inside = source // size * size + torch.randint(size, source.shape, generator=rng)
    anywhere = torch.randint(num * size, source.shape, generator=rng)
    far = torch.rand(source.shape, generator=rng) < 0.1
    order = torch.randperm(num * size, generator=rng)
    edge_index = order[torch.stack([source, torch.where(far, anywhere, inside)])]
    return InNeighbors.from_edge_index(edge_index, num * size)


@pytest.fixture
def no_metis(monkeypatch):
    monkeypatch.setattr(torch_geometric.typing, 'WITH_TORCH_SPARSE', False)
    monkeypatch.setattr(torch_geometric.typing, 'WITH_METIS', False)


def test_partition_finds_communities():
    graph = communities(num=8, size=50)
    part = partition(graph, 8, torch.Generator().manual_seed(0))
    sizes = torch.bincount(part)
    assert sizes.numel() == 8 and int(sizes.max()) <= 55 and int(sizes.min()) >= 30
    cut = float((part[graph.source] != part[graph.target]).double().mean())
    assert cut < 0.4  # 0.09 in the communities themselves, 0.875 at random
    assert torch.equal(part, partition(graph, 8, torch.Generator().manual_seed(0)))


@pytest.mark.parametrize('num_parts', [1, 2, 7, 20])
def test_partition_of_a_path_and_isolated_nodes(num_parts):
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        part = partition(InNeighbors.from_edge_index(path, 20), num_parts, rng)
        assert int(part.min()) >= 0 and int(part.max()) < num_parts  # a part may be empty
        assert int(torch.bincount(part).max()) <= -(-11 * 20 // (10 * num_parts))


def test_trees_stay_in_the_joined_parts(monkeypatch):
    data = random_graph(num_edges=600)
    part = torch.arange(120) % 6
    monkeypatch.setattr(module, 'partition', lambda *args: part)
    sampler = ClusterSampler(num_parts=6, batch_size=2, backend='torch')
    tree = DuplicateEncode([20, 3], seed=0, sampler=sampler)(data).tree
    met = [{int(part[node]) for node in row if node >= 0} for row in tree.tolist()]
    pairs = [set().union(*[met[i] for i in range(120) if part[i] == p]) for p in range(6)]
    assert all(len(pair) == 2 and pair == pairs[q] for pair in pairs for q in pair)


def test_default_number_of_parts(monkeypatch):
    asked = []

    def spy(graph, num_parts, generator):
        asked.append(num_parts)
        return torch.arange(graph.num_nodes) % num_parts

    monkeypatch.setattr(module, 'partition', spy)
    sampler = ClusterSampler(backend='torch')
    for num_nodes in [100, 1000, 1999]:  # one part needs no partition
        DuplicateEncode([2], sampler=sampler)(random_graph(num_nodes=num_nodes, num_edges=10))
    assert asked == [2, 3]


def test_parts_of_cluster_data(monkeypatch):
    """All but METIS itself is run here."""
    data = random_graph(num_edges=600)
    part = torch.arange(120) % 5
    monkeypatch.setattr(ClusterData, '_metis', lambda self, edge_index, num_nodes: part)
    sampler = ClusterSampler(num_parts=5, backend='pyg')
    tree = DuplicateEncode([20, 3], sampler=sampler)(data).tree
    for row in tree.tolist():
        assert {int(part[node]) for node in row if node >= 0} == {int(part[row[0]])}


def test_without_metis(no_metis):
    data = random_graph(num_edges=600)
    with pytest.raises(UnsupportedError, match=r"METIS from pyg-lib.*'torch' or 'auto'"):
        DuplicateEncode([2], sampler=ClusterSampler(num_parts=4, backend='pyg'))(data)
    trees = [
        DuplicateEncode([2], seed=0, sampler=ClusterSampler(4, backend=backend))(data).tree
        for backend in ['auto', 'torch']
    ]
    assert torch.equal(*trees)


def test_more_parts_than_nodes():
    with pytest.raises(ValueError, match='got 121 parts of 120 nodes'):
        DuplicateEncode([2], sampler=ClusterSampler(num_parts=121))(random_graph())
