import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.utils import k_hop_subgraph

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DuplicateEncode, TreeNeighborSampler
from torch_geometric_cgt.errors import UnsupportedError


def diamond() -> Data:
    # 3 is reached from 0 through 1 and through 2
    edge_index = torch.tensor([[1, 2, 3, 3], [0, 0, 1, 2]])
    return Data(x=torch.arange(4.0).view(-1, 1), edge_index=edge_index, edge_attr=torch.arange(4.0))


def test_copies_are_never_merged():
    data = diamond()
    loader = NeighborLoader(
        data,
        num_neighbors=[2, 2],
        neighbor_sampler=TreeNeighborSampler(data, [2, 2]),
        input_nodes=torch.tensor([0]),
    )
    batch = next(iter(loader))
    assert batch.n_id.tolist() == [0, 1, 2, 3, 3]
    assert batch.x.view(-1).tolist() == [0, 1, 2, 3, 3]
    assert batch.edge_index.tolist() == [[1, 2, 3, 4], [0, 0, 1, 2]]
    assert batch.edge_attr.tolist() == [0, 1, 2, 3]
    assert batch.e_id.tolist() == [0, 1, 2, 3]
    assert batch.num_sampled_nodes == [1, 2, 2] and batch.batch_size == 1


def test_each_tree_of_a_forest_comes_back_whole():
    forest = DuplicateEncode([3, 2], seed=0)(random_graph())
    del forest.tree
    loader = NeighborLoader(
        forest,
        num_neighbors=[3, 2],
        neighbor_sampler=TreeNeighborSampler(forest, [3, 2]),
        input_nodes=forest.root_mask,
        batch_size=7,
    )
    seen = 0
    for batch in loader:
        roots = batch.n_id[: batch.batch_size]
        subset = k_hop_subgraph(roots, 2, forest.edge_index)[0]
        assert batch.n_id.sort().values.tolist() == subset.tolist()
        assert torch.equal(batch.y[: batch.batch_size], forest.y[roots])
        assert torch.equal(
            batch.n_id[batch.edge_index], forest.edge_index[:, batch.e_id]
        )  # edges are edges of the forest
        seen += batch.num_nodes
    assert seen == forest.num_nodes


def test_sampling_is_reproducible_with_a_seed():
    data = random_graph(num_edges=2000)
    runs = []
    for seed in [1, 1, 2]:
        loader = NeighborLoader(
            data,
            num_neighbors=[3, 3],
            neighbor_sampler=TreeNeighborSampler(data, [3, 3], seed=seed),
            input_nodes=None,
            batch_size=40,
        )
        runs.append(torch.cat([batch.n_id for batch in loader]))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_worker_processes_draw_different_neighbours():
    data = random_graph(num_edges=4000)
    sampler = TreeNeighborSampler(data, [2], seed=0)
    loader = NeighborLoader(
        data,
        num_neighbors=[2],
        neighbor_sampler=sampler,
        input_nodes=torch.zeros(40, dtype=torch.long),
        batch_size=20,
        num_workers=2,
    )
    first, second = [batch.n_id for batch in loader]
    assert not torch.equal(first, second)


def test_wrong_input():
    with pytest.raises(ValueError, match='edge_index'):
        TreeNeighborSampler(Data(x=torch.zeros(3, 1)), [2])
    with pytest.raises(ValueError, match="got 'list'"):
        TreeNeighborSampler([1, 2, 3], [2])
    with pytest.raises(UnsupportedError, match='nodes only'):
        TreeNeighborSampler(diamond(), [2]).sample_from_edges(None)


@pytest.mark.native
def test_stock_loader_returns_each_tree_exactly():
    pytest.importorskip('torch_sparse', reason='needs torch-sparse: make test-native')
    forest = DuplicateEncode([5, 5], seed=0)(random_graph(num_nodes=500, num_edges=1500))
    del forest.tree
    loader = NeighborLoader(
        forest, num_neighbors=[5, 5], input_nodes=forest.root_mask, batch_size=16
    )
    assert sum(batch.num_nodes for batch in loader) == forest.num_nodes
