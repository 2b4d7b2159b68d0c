"""Networks on views: what they see, that they learn, and odd splits."""

from dataclasses import replace

import pytest
import torch

from tests.helpers.view_trees import trees_with_signal
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import linear_view_names, tree_views, view_names
from torch_geometric_cgt.nn import view_networks
from torch_geometric_cgt.nn.view_batch import FeatureTable, ViewBatch, linear_maps
from torch_geometric_cgt.nn.view_networks import ViewNetworks, network_scores

SHAPE = TreeShape.of([3, 2])


def random_trees(n=40, num_tokens=6, seed=0):
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(num_tokens, (n, SHAPE.num_slots), generator=rng)
    real = torch.rand(n, SHAPE.num_slots, generator=rng) < 0.7
    real[:, 0] = True
    parent = (torch.arange(4, 10) - 4) // 2 + 1
    real[:, 4:] &= real[:, parent]  # below null slots there are null slots
    y = torch.randint(3, (n,), generator=rng)
    split = torch.tensor([1, 2, 4])[torch.randint(3, (n,), generator=rng)]
    return TokenTrees(tokens.masked_fill(~real, num_tokens), y, split, num_tokens, 3, SHAPE)


@pytest.mark.parametrize('sparse', [False, True])
@pytest.mark.parametrize('num_features', [4, 9])  # fewer and more than tokens
def test_networks_see_the_views_of_probes(num_features, sparse):
    trees = random_trees()
    x = torch.randn(6, num_features, generator=torch.Generator().manual_seed(1))
    batch, eye = ViewBatch(trees, x.to_sparse_coo() if sparse else x), torch.eye(num_features)
    assert batch.by_token == (sparse or num_features == 9)
    seen, largest = batch.hidden(eye.repeat(1, len(linear_maps(SHAPE)) + 1))  # all maps are alike
    views = tree_views(trees.tokens, x, SHAPE)
    expected = {name: views[name] for name in linear_view_names(SHAPE)}
    expected['maximum'] = views['root']  # to which `largest` is added
    expected['layers apart'] = sum(views['layers apart'].split(num_features, dim=1))
    for name, found in zip(view_names(SHAPE), seen.unbind(dim=1), strict=True):
        assert torch.allclose(found, expected[name], atol=1e-6), name
    assert torch.allclose(largest, views['maximum'][:, :num_features])


def test_each_network_depends_on_its_own_slots_only():
    """The root for `root`, the children for `children`, and both for `maximum`."""
    trees = random_trees()
    torch.manual_seed(0)
    networks = ViewNetworks(5, 3, SHAPE).eval()
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    before = networks(ViewBatch(trees, x))
    reached = {'root': [0], 'children': [1], 'grandchildren': [2], '1 hop': [0, 1],
               '2 hops': [0, 1, 2], 'maximum': [0, 1], 'layers apart': [0, 1, 2]}  # fmt: skip
    for layer in range(3):
        slots = SHAPE.layer_slice(layer)
        tokens = trees.tokens.clone()
        tokens[:, slots] = torch.where(tokens[:, slots] < 6, (tokens[:, slots] + 1) % 6, 6)
        change = (networks(ViewBatch(replace(trees, tokens=tokens), x)) - before).abs().amax((1, 2))
        for view, moved in zip(view_names(SHAPE), change.tolist(), strict=True):
            assert (moved > 1e-4) == (layer in reached[view]), (view, layer)


@pytest.mark.parametrize('root, child', [(0.8, 0.0), (0.0, 0.8)])
@pytest.mark.parametrize('sparse', [False, True])
def test_scores_show_where_the_signal_is(root, child, sparse):
    x = torch.eye(3).to_sparse_csr() if sparse else torch.eye(3)
    scores = network_scores(trees_with_signal(root, child, 0), x)
    seen, unseen = ('root', 'children') if root else ('children', 'root')
    assert scores[seen] > 0.75 and scores[unseen] < 0.45
    assert scores['layers apart'] > 0.75 and scores['maximum'] > 0.7


def test_rare_features_are_overfitted_as_by_a_gnn():
    """Each node has a few words of its own. On the mean of its group, a network scores higher."""
    rng = torch.Generator().manual_seed(0)
    trees = trees_with_signal(0.7, 0.0, 0, n=600)
    node = torch.arange(trees.tokens.numel()).view_as(trees.tokens)
    own = (torch.rand(node.numel(), 400, generator=rng) < 0.02).float()
    x = torch.cat([torch.eye(4)[trees.tokens.view(-1), :3], own], dim=1)
    null = trees.tokens == 3
    nodes = replace(trees, tokens=node.masked_fill(null, node.numel()), num_tokens=node.numel())
    noisy, clean = network_scores(nodes, x)['root'], network_scores(trees, torch.eye(3))['root']
    assert noisy < clean - 0.03


def test_the_same_seed_gives_the_same_scores_and_leaves_no_trace():
    trees = trees_with_signal(0.5, 0.3, 0, n=300)
    state = torch.random.get_rng_state()
    assert network_scores(trees, torch.eye(3), 1) == network_scores(trees, torch.eye(3), 1)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize('codes', [[0], [1], [1, 2], [1, 4], [2, 4], [4]])
@pytest.mark.parametrize('n', [1, 2, 3, 40])
def test_odd_splits_and_one_label_are_no_error(codes, n, monkeypatch):
    monkeypatch.setattr(view_networks, 'EPOCHS', 2)
    trees = trees_with_signal(0.5, 0.5, 0, n=n)
    trees = replace(trees, split=torch.tensor(codes)[torch.arange(n) % len(codes)])
    for each in (trees, replace(trees, y=torch.zeros(n).long())):
        assert all(0 <= score <= 1 for score in network_scores(each, torch.eye(3)).values())


def test_test_roots_are_not_trained_on():
    """Labels of test roots are noise. No network may predict them."""
    trees = trees_with_signal(1.0, 0.0, 0, n=900)
    test = trees.split == 4
    noise = torch.randint(3, (900,), generator=torch.Generator().manual_seed(5))
    scores = network_scores(replace(trees, y=torch.where(test, noise, trees.y)), torch.eye(3))
    assert abs(scores['root'] - 1 / 3) < 0.08


@pytest.mark.parametrize('layout', ['sparse_coo', 'sparse_csr'])
def test_sparse_and_dense_features_give_the_same_scores(layout, monkeypatch):
    """Up to rounding: a sparse table has its own product and its own gradient."""
    rng = torch.Generator().manual_seed(0)
    trees = trees_with_signal(0.5, 0.3, 0, n=300)
    x = torch.cat([torch.eye(3), (torch.rand(3, 97, generator=rng) < 0.02).float()], dim=1)
    sparse = x.to_sparse_coo() if layout == 'sparse_coo' else x.to_sparse_csr()
    found = network_scores(trees, sparse)
    monkeypatch.setattr(view_networks, 'SPARSE', 0.0)
    assert found == pytest.approx(network_scores(trees, x), abs=0.02)


def test_the_gradient_of_a_sparse_table_is_that_of_a_dense_one():
    x = torch.tensor([[0.0, 2.0, 0.0, 0.0], [1.0, 0.0, 0.0, 3.0]])
    weight = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    table = FeatureTable(x.to_sparse_coo().coalesce())
    assert table.is_sparse and torch.allclose(table @ weight, x @ weight)
    target = torch.randn(2, 5, generator=torch.Generator().manual_seed(1))
    (sparse,) = torch.autograd.grad(((table @ weight) * target).sum(), weight)
    assert torch.allclose(sparse, x.t() @ target)


def test_many_dense_features_are_added_up_in_groups(monkeypatch):
    """The lengths of vectors stay nearly the same, and sums are sums."""
    monkeypatch.setattr(view_networks, 'MIN_GROUPS', 64)
    x = torch.rand(20, 500, generator=torch.Generator().manual_seed(0))
    found = view_networks._grouped(x)
    assert found.shape == (20, 64)
    centered = view_networks._grouped(x - 0.5)
    assert float((centered.square().sum() / (x - 0.5).square().sum() - 1).abs()) < 0.25
    assert torch.allclose(
        view_networks._grouped(x[:10] + x[10:]), found[:10] + found[10:], atol=1e-5
    )
    assert torch.equal(view_networks._grouped(x[:, :64]), x[:, :64])


def test_sparse_features_are_never_added_up(monkeypatch):
    """Rare words of a node are what a network overfits. In groups, its score would be another."""
    monkeypatch.setattr(view_networks, 'MIN_GROUPS', 64)
    monkeypatch.setattr(view_networks, 'MAX_GROUPS', 64)
    x = torch.zeros(20, 500)
    x[torch.arange(20), torch.arange(20) * 7] = 1.0
    uncoalesced = x.to_sparse_coo().index_select(0, torch.arange(20))
    for own in (x, x.to_sparse_csr(), uncoalesced):
        found = view_networks._grouped(view_networks._sparse_or_dense(own))
        assert found.layout == torch.sparse_coo and torch.equal(found.to_dense(), x)


def test_rare_words_score_as_those_of_a_perceptron(monkeypatch):
    """Groups of words lose accuracy on original features, which the aim of the tilt must not."""
    rng = torch.Generator().manual_seed(0)
    n, words = 1200, 3000
    y = torch.randint(3, (n,), generator=rng)
    x = (torch.rand(n, words, generator=rng) < 0.01).float()
    own = (torch.rand(n, 60, generator=rng) < 0.05).float()
    x[torch.arange(n)[:, None], y[:, None] * 60 + torch.arange(60)] += own
    shape = TreeShape.of([1])
    tokens = torch.stack([torch.arange(n), torch.full((n,), n)], dim=1)
    trees = TokenTrees(tokens, y, torch.tensor([1, 2, 4])[torch.arange(n) % 3], n, 3, shape)
    apart = network_scores(trees, x)['root']
    monkeypatch.setattr(view_networks, 'SPARSE', 0.0)
    monkeypatch.setattr(view_networks, 'MAX_GROUPS', 256)
    monkeypatch.setattr(view_networks, 'MIN_GROUPS', 256)
    assert network_scores(trees, x)['root'] < apart - 0.05


def test_few_trees_are_learned_from_as_long_as_many():
    """One batch per epoch: the networks learn a rare feature after more epochs than others need."""
    trees = trees_with_signal(0.9, 0.0, 0, n=240)
    trees = replace(trees, split=torch.tensor([1, 1, 1, 2, 4])[torch.arange(240) % 5])
    x = torch.cat([torch.ones(3, 30), 0.1 * torch.eye(3)], dim=1)  # what tells the label is small
    assert network_scores(trees, x)['root'] > 0.85
