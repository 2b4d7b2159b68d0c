"""Generators of whole graphs as tree models: their trees are those of the generated graph."""

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.baselines import (
    ConfigurationTrees,
    DegreeCorrectedSBM,
    DegreeCorrectedSBMTrees,
    GraphModel,
)
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeSource

SHAPE = TreeShape((3, 2))


class Copied(GraphModel):
    """Returns a graph that is given."""

    name = 'Copied'

    def fit_graph(self, graph, source, context):
        self.graph = graph
        return {'num_nodes': graph.num_nodes}

    def generate(self, generator):
        return self.graph


def source_of(graph, num_tokens, num_classes):
    y = graph.y[graph.y >= 0]
    return TreeSource(
        lambda index, rng: None, y, torch.ones_like(y), num_tokens, num_classes, SHAPE, graph=graph
    )


@pytest.fixture
def path():
    """A path of nodes 0 to 3, with edges to larger ones. A token is a node; 3 has no label."""
    edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
    return TokenGraph(torch.arange(4), torch.tensor([0, 1, 0, -1]), edges)


def test_trees_are_those_of_the_generated_graph(path):
    model = Copied(4, 3, SHAPE.num_neighbors)
    assert model.fit(source_of(path, 4, 3)) == {'num_nodes': 4}
    tokens = model.sample(torch.tensor([0, 1] * 50), torch.Generator().manual_seed(0))
    null = [4] * 10
    of_label_0 = {(0, *null[:9]), (2, 1, 4, 4, 0, 4, 4, 4, 4, 4)}
    assert {tuple(row) for row in tokens[::2].tolist()} == of_label_0
    assert {tuple(row) for row in tokens[1::2].tolist()} == {(1, 0, *null[:8])}


def test_a_label_without_nodes_has_any_root(path):
    model = Copied(4, 3, SHAPE.num_neighbors)
    model.fit(source_of(path, 4, 3))
    tokens = model.sample(torch.full((200,), 2), torch.Generator().manual_seed(0))
    assert set(tokens[:, 0].tolist()) == {0, 1, 2, 3}


def test_state_is_loaded_into_an_empty_model(path):
    model = Copied(4, 3, SHAPE.num_neighbors)
    with pytest.raises(ValueError, match='not fitted'):
        model.sample(torch.tensor([0]))
    model.fit(source_of(path, 4, 3))
    again = Copied(**model.config())
    again.load_state_dict(model.state_dict())
    y = torch.tensor([0, 1, 2] * 10)
    assert torch.equal(*(m.sample(y, torch.Generator().manual_seed(1)) for m in (model, again)))


def test_a_source_without_a_graph_is_refused():
    y = torch.zeros(2).long()
    source = TreeSource(lambda index, rng: None, y, y, 4, 1, SHAPE)
    with pytest.raises(ValueError, match="'Copied' learns from whole graphs"):
        Copied(4, 1, SHAPE.num_neighbors).fit(source)


def pairs_of(model, num_classes):
    """The share of each label among the children of roots, by the label of the root."""
    y = torch.arange(num_classes).repeat_interleave(3000)
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    trees = TokenTrees(tokens, y, torch.zeros_like(y), model.num_tokens, num_classes, SHAPE)
    trees.validate()
    child = tokens[:, SHAPE.layer_slice(1)]
    real = child != model.num_tokens
    pair = y[:, None].expand_as(child)[real] * num_classes + child[real]
    count = torch.bincount(pair, minlength=num_classes**2).view(num_classes, -1).double()
    return count / count.sum(dim=1, keepdim=True)


def test_trees_of_the_block_model_have_its_pairs_of_labels():
    data = random_graph(num_nodes=600, num_edges=2400)
    graph = TokenGraph(data.y, data.y, data.edge_index)  # a token is a label
    # A root shows at most three neighbours, so that those of hubs count less than in the matrix.
    block = DegreeCorrectedSBMTrees(3, 3, SHAPE.num_neighbors)
    block.fit(source_of(graph, 3, 3), FitContext(seed=1))
    data.cluster, data.codebook = data.y, torch.eye(3)
    matrix = DegreeCorrectedSBM().fit(data).num_edges_.double()
    matrix /= matrix.sum(dim=1, keepdim=True)
    assert matrix.diagonal().min() > 0.7
    assert (pairs_of(block, 3) - matrix).abs().max() < 0.05
    plain = ConfigurationTrees(3, 3, SHAPE.num_neighbors)
    plain.fit(source_of(graph, 3, 3), FitContext(seed=1))
    assert (pairs_of(plain, 3) - matrix).abs().max() > 0.3
