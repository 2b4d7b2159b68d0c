"""GNNs on prepared trees: the same logits and gradients as of the layers on any trees."""

import pytest
import torch

from tests.helpers.view_trees import few_trees
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.nn.graph_networks import GraphBatch, GraphNetworks


def shallow_trees():
    """A tree without children, and one with the same child twice."""
    tokens = torch.tensor([[0, 6, 6], [3, 5, 5]])
    return TokenTrees(tokens, torch.tensor([0, 2]), torch.ones(2), 6, 3, TreeShape.of([2]))


@pytest.mark.parametrize('make', [few_trees, shallow_trees])
@pytest.mark.parametrize('sparse', [False, True])
def test_logits_and_gradients_are_those_of_the_layers(make, sparse):
    trees, rng = make(), torch.Generator().manual_seed(0)
    networks = GraphNetworks(4, 3, trees.shape).eval()
    for parameter in networks.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=rng)
    x = torch.randn(6, 4, generator=rng)
    found = networks(GraphBatch(trees, x.to_sparse_coo() if sparse else x))
    tables = (x @ networks.weight).chunk(3, dim=1)
    expected = torch.stack(
        [gnn(own, trees.tokens).t() for gnn, own in zip(networks.gnns, tables, strict=True)]
    )
    assert torch.allclose(found, expected, atol=1e-5)
    target = torch.randn(found.shape, generator=rng)
    parameters = list(networks.parameters())
    own, right = (
        torch.autograd.grad((logits * target).sum(), parameters) for logits in (found, expected)
    )
    for a, b in zip(own, right, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
