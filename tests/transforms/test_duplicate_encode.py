import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv, SAGEConv

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import DuplicateEncode, Quantize
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import SourceError

A, B, C, D, E = range(5)
NULL = -1


def figure_1() -> Data:
    """What the paper says of its Figure 1 (s = 2, L = 2), on a graph of our own.

    A's neighbours B and C share the neighbour D, which is copied; B and D have fewer neighbours
    than s, so they get null nodes.
    """
    neighbours = {A: [B, C], B: [D], C: [D, E], D: [E], E: []}
    pairs = [(child, parent) for parent, children in neighbours.items() for child in children]
    return Data(
        x=torch.eye(5),
        edge_index=torch.tensor(pairs).t(),
        y=torch.tensor([0, 1, 0, 1, 0]),
        train_mask=torch.tensor([True, False, False, True, False]),
    )


def test_forest_of_figure_1():
    forest = DuplicateEncode([2, 2])(figure_1())
    trees = {int(tree[0]): tree.tolist() for tree in forest.tree}
    assert trees[A] == [A, B, C, D, NULL, D, E]
    assert trees[B] == [B, D, NULL, E, NULL, NULL, NULL]
    assert trees[D] == [D, E, NULL, NULL, NULL, NULL, NULL]
    assert trees[E] == [E] + [NULL] * 6
    # A's tree comes first: A B C D D E, where both copies of D are nodes of their own
    assert forest.x[:6].argmax(dim=1).tolist() == [A, B, C, D, D, E]
    in_first = forest.edge_index[:, forest.edge_index[0] < 6]
    assert in_first.tolist() == [[1, 2, 3, 4, 5], [0, 0, 1, 2, 2]]
    assert forest.y[forest.root_mask].tolist() == [0, 1, 0, 1, 0]
    assert (forest.y[~forest.root_mask] == -1).all()
    assert forest.train_mask.sum() == 2 and 'val_mask' not in forest
    assert forest.num_nodes == int((forest.tree >= 0).sum())


@pytest.mark.parametrize('layer', [SAGEConv, GraphConv])
def test_stock_layers_see_the_same_neighbourhood(layer):
    """Where no neighbourhood is cut, two stock layers give each root of the forest the output
    that they give the node in the graph.
    """
    torch.manual_seed(0)
    graph = random_graph(num_nodes=40, num_edges=50)
    largest = int(torch.bincount(graph.edge_index[1]).max())
    forest = DuplicateEncode([largest, largest])(graph)
    first, second = layer(8, 16), layer(16, 4)

    def run(data):
        return second(first(data.x, data.edge_index).relu(), data.edge_index)

    assert torch.allclose(run(forest)[forest.root_mask], run(graph), atol=1e-5)


def test_stock_layer_on_a_cut_neighbourhood():
    """Where neighbours are sampled, the root sees exactly the sampled ones."""
    graph = random_graph(num_nodes=40, num_edges=400)
    forest = DuplicateEncode([3], seed=1)(graph)
    layer = SAGEConv(8, 4)
    out = layer(forest.x, forest.edge_index)[forest.root_mask]
    for tree, root_out in zip(forest.tree, out, strict=True):
        children = tree[1:][tree[1:] >= 0]
        mean = graph.x[children].mean(dim=0)
        expected = layer.lin_l(mean) + layer.lin_r(graph.x[tree[0]])
        assert torch.allclose(root_out, expected, atol=1e-5)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.integers(1, 30),
    st.integers(0, 80),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 2**20),
)
def test_trees_are_made_of_edges_and_nothing_real_lies_below_null(n, num_edges, fan_outs, seed):
    edge_index = torch.randint(
        n, (2, num_edges), generator=torch.Generator().manual_seed(seed)
    ).unique(dim=1)
    graph = Data(x=torch.arange(n).float().view(-1, 1), edge_index=edge_index, num_nodes=n)
    forest = DuplicateEncode(fan_outs, seed=seed)(graph)
    shape = TreeShape.of(fan_outs)
    assert shape.check_nulls(forest.tree >= 0)
    edges = set(map(tuple, edge_index.t().tolist()))
    degree = torch.bincount(edge_index[1], minlength=n)
    for tree in forest.tree.tolist():
        for slot in range(shape.num_internal):
            children = [
                tree[i] for i in (shape.parent == slot).nonzero().view(-1).tolist() if tree[i] >= 0
            ]
            fan_out = shape.num_neighbors[int(shape.layer[slot])]
            if tree[slot] < 0:
                assert not children
                continue
            assert all((child, tree[slot]) in edges for child in children)
            assert len(set(children)) == len(children) == min(fan_out, int(degree[tree[slot]]))


def test_unlabelled_nodes_are_neighbours_but_no_roots():
    graph = figure_1()
    graph.y[D] = -1
    forest = DuplicateEncode([2, 2])(graph)
    assert forest.tree[:, 0].tolist() == [A, B, C, E]
    assert D in forest.tree[0].tolist()


def test_quantized_attributes_are_lifted(graph):
    quantized = Quantize(k=10)(graph)
    forest = DuplicateEncode([3, 2], seed=0)(quantized)
    assert torch.equal(forest.codebook[forest.cluster], forest.x)
    assert torch.equal(forest.cluster[forest.root_mask], quantized.cluster)


def test_graph_without_labels_and_without_edges():
    forest = DuplicateEncode([2])(Data(x=torch.zeros(3, 1), edge_index=torch.empty(2, 0).long()))
    assert forest.num_nodes == 3 and forest.num_edges == 0 and forest.y is None


@pytest.mark.parametrize(
    'data, message',
    [
        (Data(x=torch.zeros(2, 1)), "no 'edge_index'"),
        (Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[0], [2]])), 'from 0 to 1 .got 0 to 2'),
        (Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[-1], [0]])), 'got -1 to 0'),
        (Data(x=torch.zeros(2, 1), edge_index=torch.zeros(2, 3)), 'integer matrix'),
        (Data(x=torch.zeros(0, 1), edge_index=torch.empty(2, 0).long()), 'empty'),
    ],
)
def test_wrong_graphs(data, message):
    with pytest.raises(SourceError, match=message):
        DuplicateEncode([2])(data)


@pytest.mark.parametrize('wrong', [[], [0, 5]])
def test_wrong_fan_outs(wrong):
    with pytest.raises(ValueError, match='num_neighbors'):
        DuplicateEncode(wrong)


def test_repr():
    assert repr(DuplicateEncode([5, 3], seed=1)) == (
        "DuplicateEncode(num_neighbors=[5, 3], seed=1, sampler='neighbor')"
    )
