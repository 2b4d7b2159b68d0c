import pytest
import torch
from torch_geometric.data import TensorAttr

from tests.helpers.trees import random_trees, two_trees
from torch_geometric_cgt.data import (
    CodebookFeatureStore,
    ForestGraphStore,
    LazyForest,
    TokenTrees,
    TreeShape,
    root_nodes,
)


def some_trees(fan_outs, n=50, num_tokens=4):
    shape = TreeShape.of(fan_outs)
    tokens, _ = random_trees(n, num_tokens, shape, torch.Generator().manual_seed(0))
    return TokenTrees(tokens.int(), torch.zeros(n), torch.ones(n).long(), num_tokens, 1, shape)


@pytest.mark.parametrize('fan_outs', [[3], [3, 2], [1, 4], [2, 2, 2], [2, 1, 2, 3]])
def test_arithmetic_gives_the_forest_that_is_held(fan_outs):
    trees = some_trees(fan_outs)
    held, lazy = trees.forest(), LazyForest.of(trees)
    node = torch.randperm(held.num_nodes, generator=torch.Generator().manual_seed(1))
    assert lazy.num_nodes == held.num_nodes and torch.equal(lazy.root, held.root)
    tree, local = held.slot // trees.shape.num_slots, held.slot % trees.shape.num_slots
    assert torch.equal(lazy.tree_of(node), tree[node])
    assert torch.equal(lazy.token_of(node), trees.tokens.long()[tree, local][node])

    child, parent = held.edge_index
    assert torch.equal(lazy.edge_of(child), torch.arange(child.numel()))
    first, degree = lazy.children(node)
    assert torch.equal(degree, torch.bincount(parent, minlength=held.num_nodes)[node])
    has = degree > 0
    expected = torch.full((held.num_nodes,), held.num_nodes).scatter_reduce(
        0, parent, child, 'amin'
    )
    assert torch.equal(first[has], expected[node][has])


def test_no_trees():
    trees = some_trees([2], n=0)
    assert LazyForest.of(trees).num_nodes == 0


def test_stores_give_what_the_data_object_gives():
    codebook = torch.tensor([[10.0], [20.0]])
    data, forest = two_trees().to_data(codebook), LazyForest.of(two_trees())
    features, graph = CodebookFeatureStore(forest, codebook), ForestGraphStore(forest)
    for attr in features.get_all_tensor_attrs():
        assert features.get_tensor_size(attr) == tuple(data[attr.attr_name].shape)
        attr.index = None
        assert torch.equal(features.get_tensor(attr), data[attr.attr_name])
    part = features.get_tensor(TensorAttr(attr_name='x', group_name=None, index=torch.tensor([3])))
    assert part.tolist() == [[20.0]]
    row, col = graph.get_edge_index(graph.get_all_edge_attrs()[0])
    assert torch.equal(torch.stack([row, col]), data.edge_index)


def test_stores_are_read_only():
    features = CodebookFeatureStore(LazyForest.of(two_trees()), torch.zeros(2, 1))
    with pytest.raises(TypeError, match='read-only'):
        features.put_tensor(torch.zeros(4), group_name=None, attr_name='x', index=None)


def test_roots_of_a_split():
    forest = LazyForest.of(two_trees())
    assert root_nodes(forest, 'train').tolist() == [0]
    assert root_nodes(forest, 'test').tolist() == [3]
    assert root_nodes(forest, 'all').tolist() == [0, 3]
    with pytest.raises(ValueError, match="'nope'"):
        root_nodes(forest, 'nope')
