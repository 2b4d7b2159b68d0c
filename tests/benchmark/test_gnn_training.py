"""GNNs by name: beside PyG's layers on the forest, at any depth, and their training."""

import pytest
import torch
from sklearn.metrics import f1_score
from torch_geometric.nn import APPNP, GATConv, GINConv, SAGEConv, SimpleConv
from torch_geometric.utils import add_self_loops, degree

from tests.helpers.trees import SHAPE, encoded, random_tokens, shuffle_siblings
from torch_geometric_cgt.benchmark import ALL_MODELS, MODELS, GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.gnn_training import (
    batches,
    evaluate_gnn,
    fit,
    gnn_accuracy,
    logits_of,
    score_gnns,
    train_gnn,
)
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.token_trees import SparseRows
from torch_geometric_cgt.nn.tree_gnns import PPNP

FULL = (*MODELS, 'GraphSAGE', 'PPNP')  # what draws nothing when all is to be drawn


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
        elif name == 'GraphSAGE':
            others, own = conv.lin.weight.data.chunk(2)
            layer = SAGEConv(others.size(1), others.size(0))
            layer.lin_l.weight.data, layer.lin_r.weight.data = others, own
            layer.lin_l.bias.data = conv.bias.data
            layers.append(layer)
        else:
            out_channels, in_channels = conv.lin.weight.shape
            layer = GATConv(in_channels, out_channels // conv.heads, conv.heads)
            layer.lin.weight.data = conv.lin.weight.data
            layer.att_src.data, layer.att_dst.data = conv.att_source[None], conv.att_target[None]
            layer.bias.data = conv.bias.data
            layers.append(layer)
    return layers


@pytest.mark.parametrize('name', [*MODELS, 'GraphSAGE'])
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


@pytest.mark.parametrize('name', FULL)
@torch.no_grad()
def test_projecting_used_rows_only_changes_nothing(name):
    _, trees = encoded()
    model = make_gnn(name, 8, 3, SHAPE).eval()
    rows = torch.tensor([3, 17, 4])
    assert torch.allclose(
        logits_of(model, trees, rows), model(trees.x, trees.tokens[rows]), atol=1e-5
    )


@pytest.mark.parametrize('name', ALL_MODELS)
@pytest.mark.parametrize('depth', [1, 3])
def test_any_depth(name, depth):
    shape = TreeShape.of([2] * depth)
    model = make_gnn(name, 4, 3, shape, hidden_channels=8)
    x, tokens = torch.randn(5, 4), random_tokens(shape, 7, 5)
    out = model(x, tokens)
    assert out.shape == (7, 3) and torch.isfinite(out).all()
    model.loss(x, tokens, torch.zeros(7, dtype=torch.long)).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), key


@pytest.mark.parametrize('name', FULL)
@torch.no_grad()
def test_order_of_siblings_and_null_slots_are_of_no_account(name):
    x, tokens = torch.randn(30, 4), random_tokens(SHAPE, 9, 30)
    model = make_gnn(name, 4, 3, SHAPE, hidden_channels=8).eval()
    out = model(x, tokens)
    assert torch.allclose(model(x, shuffle_siblings(tokens, SHAPE, 1)), out, atol=1e-5)
    wide = TreeShape.of([4, 3])
    padded = torch.full((9, 4, 4), 30)  # child, then its children
    padded[:, :3] = torch.cat([tokens[:, 1:4, None], _pad(tokens[:, 4:].view(9, 3, 2))], dim=2)
    slots = torch.cat([tokens[:, :1], padded[:, :, 0], padded[:, :, 1:].flatten(1)], dim=1)
    other = make_gnn(name, 4, 3, wide, hidden_channels=8).eval()
    other.load_state_dict(model.state_dict())
    assert torch.allclose(other(x, slots), out, atol=1e-5)


def _pad(children):
    return torch.nn.functional.pad(children, (0, 1), value=30)


@pytest.mark.parametrize('name', MODELS)
def test_sparse_and_dense_tables_give_the_same(name):
    rng = torch.Generator().manual_seed(0)
    x = (torch.rand(30, 50, generator=rng) > 0.9).float()
    tokens = torch.randint(31, (12, SHAPE.num_slots), generator=rng)
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
        out = model(table, tokens)
        model.zero_grad()
        out.sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert torch.allclose(model(x, tokens), model(sparse, tokens), atol=1e-5)
    for dense, other in zip(*gradients, strict=True):
        assert torch.allclose(dense, other, atol=1e-4)


@torch.no_grad()
def test_ppnp_equals_many_power_steps_of_appnp_on_the_forest():
    forest, trees = encoded()
    model = make_gnn('PPNP', 8, 3, SHAPE, hidden_channels=16).eval()
    edge_index, _ = add_self_loops(forest.edge_index, num_nodes=forest.num_nodes)
    weight = 1 / degree(edge_index[1])[edge_index[1]]
    reference = APPNP(K=200, alpha=0.1, normalize=False)(
        model.predict(forest.x), edge_index, weight
    )
    assert torch.allclose(model(trees.x, trees.tokens), reference[forest.root_mask], atol=1e-5)


def test_closed_form_of_ppnp_by_hand():
    model = PPNP(1, 1, 1, TreeShape.of([2]), teleport=0.5)
    h = torch.tensor([[[4.0], [1.0], [3.0]], [[4.0], [1.0], [0.0]], [[4.0], [0.0], [0.0]]])
    real = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    # z = (4 / 2 + (1 + 3) / 6) / (1 - 1 / 6), z = (4 / 2 + 1 / 4) / (1 - 1 / 4), z = 4
    assert model.propagate(h, real).view(-1).tolist() == pytest.approx([3.2, 3.0, 4.0])


@pytest.mark.parametrize('name', ALL_MODELS)
def test_training_beats_guessing_and_is_reproducible(name):
    _, trees = encoded()
    config = GNNConfig(sampled_lr=0.01, epochs=30, batch_size=10, num_sampled=20)
    scores = []
    for _ in range(2):
        model = train_gnn(name, trees, config, seed=0)
        torch.rand(1)  # what others draw in between is of no account
        scores.append(gnn_accuracy(model, trees, trees.rows('test'), seed=1))
    assert scores[0] == scores[1] > 0.6


def test_scores_equal_those_of_scikit_learn():
    _, trees = encoded()
    model, rows = train_gnn('GCN', trees, GNNConfig(epochs=2), seed=0), trees.rows('test')
    with torch.no_grad():
        predicted = logits_of(model, trees, rows).argmax(dim=1)
    score = evaluate_gnn(model, trees, rows)
    assert score['macro_f1'] == pytest.approx(f1_score(trees.y[rows], predicted, average='macro'))
    assert score['accuracy'] == pytest.approx(float((predicted == trees.y[rows]).float().mean()))
    assert score_gnns(['GCN'], trees, 0, GNNConfig(epochs=2)) == {'GCN': score['accuracy']}


def test_unknown_model():
    with pytest.raises(ValueError, match="'MLP'; choose from"):
        make_gnn('MLP', 4, 3, SHAPE)
    with pytest.raises(ValueError, match=r"'num_sampled' must be at least 1 \(got 0"):
        make_gnn('PASS', 4, 3, SHAPE, num_sampled=0)


def test_no_batch_ends_with_a_single_root():
    rows = torch.arange(9).flip(0)
    assert [part.tolist() for part in batches(rows, 4)] == [[8, 7, 6, 5], [4, 3, 2, 1, 0]]
    assert [part.tolist() for part in batches(rows[1:], 3)] == [[7, 6, 5], [4, 3, 2], [1, 0]]
    assert [part.tolist() for part in batches(rows[:1], 4)] == [[8]]  # there is no other
    assert [part.numel() for part in batches(rows[:0], 4)] == [0]


@pytest.mark.parametrize('name', ALL_MODELS)
def test_all_train_where_one_root_is_left_over(name):
    _, trees = encoded()
    config = GNNConfig(epochs=1, batch_size=trees.rows('train').numel() - 1)
    model = train_gnn(name, trees, config, seed=0)
    torch.manual_seed(0)  # as the training does
    start = make_gnn(name, trees.x.size(1), 3, SHAPE, config.hidden_channels, config.dropout)
    weights, before = model.state_dict(), start.state_dict()
    assert any(not torch.equal(weights[key], before[key]) for key in before)  # it was trained
    assert all(value.isfinite().all() for value in weights.values())
    with torch.no_grad():
        logits = logits_of(model, trees, trees.rows('test'))
    assert logits.shape == (trees.rows('test').numel(), 3) and logits.isfinite().all()


def test_training_ends_at_the_best_epoch():
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    scores = iter([0.1, 0.5, 0.5, 0.4, 0.9])
    fit(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        lambda: [torch.ones(1, 1)],
        lambda batch: -model(batch).sum(),  # each epoch adds one
        lambda: next(scores),
        epochs=5,
        patience=2,
    )
    assert model.weight.item() == 2.0
    assert next(scores) == 0.9  # the fifth epoch was not waited for
