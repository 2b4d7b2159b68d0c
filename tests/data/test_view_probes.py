"""Probes find signal in the view that has it, and only there."""

from dataclasses import replace

import pytest
import torch

from tests.helpers.view_trees import trees_with_signal
from torch_geometric_cgt.data.view_probes import (
    LinearProbe,
    ViewProbes,
    probe_score,
    probe_table,
    used_tokens,
    view_scores,
)
from torch_geometric_cgt.data.views import tree_views


@pytest.mark.parametrize('root, child', [(0.8, 0.0), (0.0, 0.8)])
def test_scores_show_where_the_signal_is(root, child):
    scores = view_scores(trees_with_signal(root, child, 0), torch.eye(3))
    seen, unseen = ('root', 'children') if root else ('children', 'root')
    assert scores[seen] > 0.75 and scores[unseen] < 0.42
    assert scores['layers apart'] > 0.75


def test_two_labels_are_scored_by_the_area_under_the_curve():
    trees = trees_with_signal(0.5, 0.0, 0)
    rare = replace(trees, y=(trees.y == 0).long(), num_classes=2)
    score = view_scores(rare, torch.eye(3))
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


def test_one_label_and_no_training_split_are_no_error():
    trees = trees_with_signal(0.5, 0.5, 0, n=30)
    same = replace(trees, y=torch.zeros(30).long())
    assert set(view_scores(same, torch.eye(3)).values()) == {1.0}
    unsplit = replace(trees, split=torch.zeros(30).long())
    assert all(0 <= score <= 1 for score in view_scores(unsplit, torch.eye(3)).values())


def test_tables_keep_distances():
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(torch.cdist(probe_table(x), probe_table(x)), torch.cdist(x, x), atol=1e-4)
    assert set(tree_views(torch.zeros(1, 3), x, trees_with_signal(0, 0, 0, n=3).shape)) > {'root'}
