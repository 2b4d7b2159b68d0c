"""Dense layers beside PyG's, on the forest of the same trees."""

from itertools import pairwise

import pytest
import torch
from torch_geometric.nn import GCN

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.nn import SumConv, TreeGCNConv, TreeGNN
from torch_geometric_cgt.nn.tree_convs import masked_batch_norm


def random_trees(shape: TreeShape) -> TokenTrees:
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(6, (30, shape.num_slots), generator=rng)
    for slot in range(1, shape.num_slots):  # some null slots, and all below them
        null = (torch.rand(30, generator=rng) < 0.3) | (tokens[:, shape.parent[slot]] == 6)
        tokens[null, slot] = 6
    y = torch.zeros(30, dtype=torch.long)
    return TokenTrees(tokens, y, y, 6, 1, shape)


@pytest.mark.parametrize('fan_outs', [(3,), (3, 2), (2, 1, 3)], ids=str)
def test_dense_gcn_equals_the_one_of_pyg_on_the_forest(fan_outs):
    torch.manual_seed(0)
    shape = TreeShape(fan_outs)
    trees, codebook = random_trees(shape), torch.randn(6, 5)
    sizes = [5, *[8] * (shape.depth - 1), 4]
    pyg = GCN(5, 8, shape.depth, 4).eval()
    convs = [TreeGCNConv(i, o) for i, o in pairwise(sizes)]
    for ours, theirs in zip(convs, pyg.convs, strict=True):
        ours.lin.weight.data = theirs.lin.weight.data
        ours.bias.data = torch.randn(ours.bias.shape)
        theirs.bias.data = ours.bias.data
    dense = TreeGNN(convs, shape).eval()
    data = trees.to_data(codebook)
    expected = pyg(data.x, data.edge_index)[data.root_mask]
    assert torch.allclose(dense(codebook, trees.tokens), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize('training', [True, False])
def test_batch_norm_with_static_shapes_equals_the_one_on_real_slots(training):
    torch.manual_seed(0)
    h, real = torch.randn(6, 4, 3), torch.rand(6, 4) < 0.6
    one, other = (torch.nn.BatchNorm1d(3).train(training) for _ in range(2))
    expected = torch.zeros_like(h).masked_scatter(real[..., None], one(h[real]))
    assert torch.allclose(masked_batch_norm(other, h, real), expected, atol=1e-6)
    for name, value in one.state_dict().items():
        assert torch.allclose(other.state_dict()[name], value, atol=1e-6), name


def test_a_network_has_one_convolution_per_layer():
    with pytest.raises(ValueError, match=r'2 for \[3, 2\] \(got 1\)'):
        TreeGNN([SumConv(4, 8, 8)], TreeShape((3, 2)))
