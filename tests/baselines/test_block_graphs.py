"""Random graphs with given degrees keep what they say, and nothing else."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_undirected

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.baselines import ConfigurationModel, DegreeCorrectedSBM
from torch_geometric_cgt.benchmark.graph_comparison import homophily
from torch_geometric_cgt.data import masks_of, random_split

MODELS = [ConfigurationModel, DegreeCorrectedSBM]


@pytest.fixture(scope='module')
def quantized():
    """A graph with four tokens. Token 3 occurs at label 0 only."""
    data = random_graph(num_nodes=400, num_edges=1200)
    data.cluster = torch.arange(400) % 3
    data.cluster[(data.y == 0) & (torch.arange(400) % 2 == 0)] = 3
    data.codebook = torch.arange(8.0).view(4, 2)
    data.update(masks_of(random_split(data.y >= 0, 0)))
    return data


@pytest.mark.parametrize('model', MODELS)
def test_degrees_labels_and_splits_are_kept(model, quantized):
    out = model().fit(quantized).sample(seed=0)
    out.validate()
    assert out.is_undirected() and not out.has_self_loops()
    assert torch.equal(out.edge_index.unique(dim=1), out.edge_index)
    wanted, found = degree(quantized.edge_index[0], 400), degree(out.edge_index[0], 400)
    assert (found <= wanted).all() and found.sum() >= 0.99 * wanted.sum()
    assert torch.equal(out.y, quantized.y) and torch.equal(out.val_mask, quantized.val_mask)


@pytest.mark.parametrize('model', MODELS)
def test_features_are_codewords_of_the_label(model, quantized):
    out = model().fit(quantized).sample(seed=0)
    assert torch.equal(out.x, quantized.codebook[out.token])
    assert (out.y[out.token == 3] == 0).all()
    share = (out.token[out.y == 0] == 3).double().mean()
    expected = (quantized.cluster[quantized.y == 0] == 3).double().mean()
    assert abs(share - expected) < 0.15


def test_only_the_block_model_keeps_homophily(quantized):
    source = homophily(quantized.edge_index, quantized.y)
    blocks = DegreeCorrectedSBM().fit(quantized).sample(0)
    plain = ConfigurationModel().fit(quantized).sample(0)
    assert source > 0.75
    assert abs(homophily(blocks.edge_index, blocks.y) - source) < 0.02
    assert homophily(plain.edge_index, plain.y) < 0.45


@pytest.mark.parametrize('model', MODELS)
def test_the_seed_decides(model, quantized):
    fitted = model().fit(quantized)
    first, again, other = fitted.sample(1), fitted.sample(1), fitted.sample(2)
    assert torch.equal(first.edge_index, again.edge_index) and torch.equal(first.x, again.x)
    assert not torch.equal(first.edge_index, other.edge_index)
    assert not torch.equal(first.token, other.token)


def test_nodes_without_a_label_are_a_block():
    edges = to_undirected(torch.tensor([[0, 1, 2], [3, 4, 5]]))
    data = Data(edge_index=edges, y=torch.tensor([0, 0, 0, -1, -1, -1]), num_nodes=6)
    data.cluster, data.codebook = torch.tensor([0, 0, 0, 1, 1, 1]), torch.eye(2)
    out = DegreeCorrectedSBM().fit(data).sample()
    assert out.num_edges == 6 and (out.y[out.edge_index] < 0).sum(dim=0).eq(1).all()
    assert out.token.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_graph_without_clusters_is_refused():
    with pytest.raises(ValueError, match=r"no \['cluster', 'codebook'\]: apply the transform"):
        ConfigurationModel().fit(random_graph())
    with pytest.raises(ValueError, match='before'):
        ConfigurationModel().sample()
