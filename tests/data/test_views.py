"""Views of trees, by hand and against plain loops."""

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.nn import GCNConv

from tests.helpers.view_trees import trees_with_signal
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import (
    LinearProbe,
    ViewProbes,
    probe_score,
    probe_table,
    roc_auc,
    tree_views,
    used_tokens,
    view_names,
)


def linear_scores(trees, table):
    """Scores of linear probes of all views, trained on every second tree."""
    train = torch.arange(len(trees)) % 2 == 0
    return {
        name: probe_score(
            LinearProbe.fit(z[train], trees.y[train], trees.num_classes)(z[~train]),
            trees.y[~train],
        )
        for name, z in tree_views(trees.tokens, table, trees.shape).items()
    }


def test_views_by_hand():
    shape = TreeShape.of([2, 2])
    table = torch.tensor([[1.0, 0.0], [0.0, 4.0], [3.0, -2.0]])
    tokens = torch.tensor([[0, 1, 2, 0, 3, 3, 3], [2, 3, 3, 3, 3, 3, 3]])  # 3 is null
    views = tree_views(tokens, table, shape)
    assert list(views) == view_names(shape)
    assert views['root'].tolist() == [[1, 0], [3, -2]]
    assert views['children'].tolist() == [[1.5, 1], [0, 0]]
    assert views['grandchildren'].tolist() == [[1, 0], [0, 0]]
    # Of three neighbours with the root itself, one has a child: degrees 3, 2 and 1.
    one_hop = table[0] / 3 + table[1] / 6**0.5 + table[2] / 3**0.5
    assert torch.allclose(views['1 hop'], torch.stack([one_hop, table[2]]))
    assert views['maximum'].tolist() == [[3, 4, 0, -2], [0, 0, 0, 0]]
    assert views['layers apart'].tolist() == [[1, 0, 1.5, 1, 1, 0], [3, -2, 0, 0, 0, 0]]


@pytest.mark.parametrize('fan_outs', [[3], [3, 2], [2, 2, 2]])
def test_hops_are_those_of_a_linear_gcn(fan_outs):
    """PyG's own layer, on the forest of the trees, with a weight matrix of one."""
    shape = TreeShape.of(fan_outs)
    rng = torch.Generator().manual_seed(0)
    table = torch.randn(6, 4, generator=rng)
    tokens = torch.randint(7, (40, shape.num_slots), generator=rng)
    tokens[:, 0] = tokens[:, 0].clamp(max=5)
    for slot in range(1, shape.num_slots):  # nothing below null
        tokens[:, slot] = torch.where(tokens[:, shape.parent[slot]] == 6, 6, tokens[:, slot])
    views = tree_views(tokens.int(), table, shape)
    trees = TokenTrees(tokens, tokens[:, 0], tokens[:, 0] * 0, 6, 7, shape)
    data = trees.to_data(table)
    conv = GCNConv(4, 4, bias=False)
    conv.lin.weight = torch.nn.Parameter(torch.eye(4))
    x = data.x
    for hop in range(1, shape.depth + 1):
        x = conv(x, data.edge_index).detach()
        name = '1 hop' if hop == 1 else f'{hop} hops'
        assert torch.allclose(views[name], x[data.root_mask], atol=1e-5)


def test_blocks_do_not_change_views(monkeypatch):
    shape, rng = TreeShape.of([3]), torch.Generator().manual_seed(0)
    tokens, table = torch.randint(5, (50, 4), generator=rng), torch.randn(5, 3, generator=rng)
    whole = tree_views(tokens, table, shape)
    monkeypatch.setattr('torch_geometric_cgt.data.views.BLOCK_ELEMENTS', 40)
    parts = tree_views(tokens, table, shape)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_deep_trees_have_more_views():
    assert view_names(TreeShape.of([2, 2, 2])) == [
        'root', 'children', 'grandchildren', 'layer 3', '1 hop', '2 hops', '3 hops', 'maximum',
        'layers apart',
    ]  # fmt: skip
    assert view_names(TreeShape.of([4])) == ['root', 'children', '1 hop', 'maximum', 'layers apart']


@pytest.mark.parametrize('root, child', [(0.8, 0.0), (0.0, 0.8)])
def test_scores_show_where_the_signal_is(root, child):
    scores = linear_scores(trees_with_signal(root, child, 0), torch.eye(3))
    seen, unseen = ('root', 'children') if root else ('children', 'root')
    assert scores[seen] > 0.75 and scores[unseen] < 0.42
    assert scores['layers apart'] > 0.75


def test_two_labels_are_scored_by_the_area_under_the_curve():
    trees = trees_with_signal(0.5, 0.0, 0)
    rare = replace(trees, y=(trees.y == 0).long(), num_classes=2)
    score = linear_scores(rare, torch.eye(3))
    assert score['root'] > 0.72 and abs(score['children'] - 0.5) < 0.06
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    assert probe_score(probs, torch.tensor([0, 1, 0, 1])) == 0.75
    assert probe_score(probs, torch.tensor([0, 0, 0, 0])) == 1.0  # no curve: the accuracy


def test_labels_that_were_not_seen_are_not_predicted():
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(50, 3, generator=rng)
    for seen in (torch.tensor([2]), torch.tensor([0, 3]), torch.tensor([0, 2, 3])):
        y = seen[torch.arange(50) % seen.numel()]
        probs = LinearProbe.fit(rows, y, 5)(rows)
        assert torch.allclose(probs.sum(dim=1), torch.ones(50))
        assert set(probs.argmax(dim=1).tolist()) <= set(seen.tolist())
        others = [label for label in range(5) if label not in seen.tolist()]
        assert float(probs[:, others].max()) == 0


def test_two_labels_have_the_probabilities_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(200, 3, generator=rng)
    y = (rows[:, 0] + torch.randn(200, generator=rng) > 0).long()
    scaled = rows - rows.mean(dim=0)
    scaled = scaled / scaled.square().sum(dim=1).mean().sqrt()
    model = LogisticRegression(C=10.0, max_iter=100, tol=1e-3).fit(scaled.numpy(), y.numpy())
    expected = torch.from_numpy(model.predict_proba(scaled.numpy())).float()
    assert torch.allclose(LinearProbe.fit(rows, y, 2)(rows), expected, atol=1e-4)


def test_predictions_of_known_trees_come_from_probes_that_did_not_see_them():
    rng = torch.Generator().manual_seed(0)
    views = {'noise': torch.randn(300, 60, generator=rng)}
    y = torch.randint(2, (300,), generator=rng)
    fold = torch.arange(300) % 3
    probes = ViewProbes.fit(views, y, fold, 2, rng)
    honest = (probes(views, fold)['noise'].argmax(dim=1) == y).double().mean()
    seen = (probes(views, (fold + 1) % 3)['noise'].argmax(dim=1) == y).double().mean()
    assert abs(float(honest) - 0.5) < 0.1 and float(seen) > 0.65  # noise is learned by heart


@pytest.mark.parametrize('sparse', [False, True])
def test_only_tokens_that_are_used_are_in_the_table(sparse):
    trees = trees_with_signal(0.5, 0.5, 0, n=40)
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    wide = replace(trees, tokens=torch.where(trees.tokens == 3, 9, 2 * trees.tokens), num_tokens=9)
    used, rows = used_tokens(wide, x.to_sparse_csr() if sparse else x)
    rows = rows.to_dense() if sparse else rows
    assert used.num_tokens == 3 and torch.equal(rows, x[[0, 2, 4]])
    assert torch.equal(used.tokens, trees.tokens)


def test_one_label_is_no_error():
    trees = trees_with_signal(0.5, 0.5, 0, n=30)
    same = replace(trees, y=torch.zeros(30).long())
    assert set(linear_scores(same, torch.eye(3)).values()) == {1.0}


def test_tables_keep_distances():
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(torch.cdist(probe_table(x), probe_table(x)), torch.cdist(x, x), atol=1e-4)
    assert set(tree_views(torch.zeros(1, 3), x, trees_with_signal(0, 0, 0, n=3).shape)) > {'root'}


def test_roc_auc_by_hand_and_with_ties():
    y = torch.tensor([0, 1, 0, 1])
    assert roc_auc(torch.tensor([0.1, 0.4, 0.35, 0.8]), y) == 1
    assert roc_auc(torch.tensor([0.1, 0.2, 0.3, 0.8]), y) == 0.75
    assert roc_auc(torch.zeros(4), y) == 0.5 and roc_auc(torch.rand(3), torch.ones(3)) == 0.5
    rng = torch.Generator().manual_seed(0)
    score = torch.randint(5, (50,), generator=rng).float()
    y = torch.randint(2, (50,), generator=rng)
    assert roc_auc(score, y) == pytest.approx(roc_auc_score(y, score))
