import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import RandomNodeLoader

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler import InNeighbors, SubgraphSampler


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
