import pytest
import torch
from torch_geometric.data import TensorAttr

from tests.data.test_forest import trees
from torch_geometric_cgt.data import CodebookFeatureStore, ForestGraphStore, LazyForest, root_nodes


def test_stores_give_what_the_data_object_gives():
    codebook = torch.tensor([[10.0], [20.0]])
    data, forest = trees().to_data(codebook), LazyForest.of(trees())
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
    features = CodebookFeatureStore(LazyForest.of(trees()), torch.zeros(2, 1))
    with pytest.raises(TypeError, match='read-only'):
        features.put_tensor(torch.zeros(4), group_name=None, attr_name='x', index=None)


def test_roots_of_a_split():
    forest = LazyForest.of(trees())
    assert root_nodes(forest, 'train').tolist() == [0]
    assert root_nodes(forest, 'test').tolist() == [3]
    assert root_nodes(forest, 'all').tolist() == [0, 3]
    with pytest.raises(ValueError, match="'nope'"):
        root_nodes(forest, 'nope')
