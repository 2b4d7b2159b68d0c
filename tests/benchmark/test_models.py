import pytest
import torch
from torch_geometric.nn import GATConv, GINConv, SimpleConv

from tests.conftest import random_graph
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.benchmark import MODELS, make_gnn
from torch_geometric_cgt.benchmark.training import (
    GNNConfig,
    TreeSet,
    logits_of,
    test_gnn,
    train_gnn,
)
from torch_geometric_cgt.data import TreeShape, random_split, tokens_of

SHAPE = TreeShape.of([3, 2])


def encoded():
    graph = random_graph(num_nodes=40, num_edges=80)
    forest = DuplicateEncode([3, 2], seed=0)(graph)
    trees = TreeSet(
        graph.x,
        tokens_of(forest.tree, torch.arange(40), 40),
        graph.y,
        random_split(graph.y >= 0, 0),
        3,
        SHAPE,
    )
    return forest, trees


def pyg_layers(name, model):
    """The same model made of stock PyG layers, with the same weights."""
    mean = SimpleConv(aggr='mean', combine_root='self_loop')
    layers = []
    for i, conv in enumerate(model.convs):
        if name == 'GCN' or (name == 'SGC' and i == 0):
            layers.append(lambda x, e, c=conv: mean(x @ c.lin.weight.t(), e) + c.bias)
        elif name == 'SGC':
            layers.append(mean)
        elif name == 'GIN':
            mlp = torch.nn.Sequential(conv.lin, conv.norm, torch.nn.ReLU(), conv.out)
            layers.append(GINConv(mlp).eval())
        else:
            out_channels, in_channels = conv.lin.weight.shape
            layer = GATConv(in_channels, out_channels // conv.heads, conv.heads)
            layer.lin.weight.data = conv.lin.weight.data
            layer.att_src.data, layer.att_dst.data = conv.att_source[None], conv.att_target[None]
            layer.bias.data = conv.bias.data
            layers.append(layer)
    return layers


@pytest.mark.parametrize('name', MODELS)
@torch.no_grad()
def test_dense_trees_give_what_stock_layers_give_on_the_forest(name):
    forest, trees = encoded()
    torch.manual_seed(0)
    model = make_gnn(name, 8, 3, SHAPE, hidden_channels=16).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 2.0)
    h = forest.x
    for i, layer in enumerate(pyg_layers(name, model)):
        h = layer(h.relu() if i and name != 'SGC' else h, forest.edge_index)
    out = logits_of(model, trees, torch.arange(40))
    assert torch.allclose(out, h[forest.root_mask], atol=1e-4)


@pytest.mark.parametrize('name', MODELS)
@torch.no_grad()
def test_projecting_used_rows_only_changes_nothing(name):
    _, trees = encoded()
    model = make_gnn(name, 8, 3, SHAPE).eval()
    rows = torch.tensor([3, 17, 4])
    assert torch.allclose(
        logits_of(model, trees, rows), model(trees.x, trees.index[rows]), atol=1e-5
    )


@pytest.mark.parametrize('name', MODELS)
@pytest.mark.parametrize('depth', [1, 3])
def test_any_depth(name, depth):
    shape = TreeShape.of([2] * depth)
    model = make_gnn(name, 4, 3, shape, hidden_channels=8)
    out = model(torch.randn(5, 4), torch.randint(6, (7, shape.num_slots)))
    assert out.shape == (7, 3) and torch.isfinite(out).all()


@pytest.mark.parametrize('name', MODELS)
def test_training_beats_guessing_and_is_reproducible(name):
    _, trees = encoded()
    config = GNNConfig(epochs=30, batch_size=10)
    scores = []
    for _ in range(2):
        model = train_gnn(name, trees, config, seed=0)
        scores.append(test_gnn(model, trees, trees.rows('test')))
    assert scores[0] == scores[1] > 0.6


def test_unknown_model():
    with pytest.raises(ValueError, match="'MLP'; choose from"):
        make_gnn('MLP', 4, 3, SHAPE)


@pytest.mark.parametrize('name', MODELS)
def test_sparse_and_dense_tables_give_the_same(name):
    from torch_geometric_cgt.benchmark.rows import SparseRows

    rng = torch.Generator().manual_seed(0)
    x = (torch.rand(30, 50, generator=rng) > 0.9).float()
    index = torch.randint(31, (12, SHAPE.num_slots), generator=rng)
    model = make_gnn(name, 50, 3, SHAPE, hidden_channels=8).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    sparse, gradients = SparseRows.from_matrix(x), []
    rows = torch.tensor([4, 0, 29, 7])
    assert torch.equal(
        torch.stack([model.convs[0].project(sparse[rows])]),
        torch.stack([model.convs[0].project(SparseRows.from_matrix(x[rows]))]),
    )
    for table in [x, sparse]:
        out = model(table, index)
        model.zero_grad()
        out.sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert torch.allclose(model(x, index), model(sparse, index), atol=1e-5)
    for dense, other in zip(*gradients, strict=True):
        assert torch.allclose(dense, other, atol=1e-4)
