"""The tilt: selected trees have the means of the source, and probes score alike."""

from dataclasses import replace

import pytest
import torch

from tests.helpers.view_trees import trees_with_signal
from torch_geometric_cgt.data.views import view_scores
from torch_geometric_cgt.models.candidates import CandidatePool, is_train, random_folds
from torch_geometric_cgt.models.view_tilt import Response, ViewTilt, match_views

SIZE = 8


def pool_of(root, child, seed=1, groups=1500):
    """Candidates whose labels agree in groups."""
    trees = trees_with_signal(root, child, seed, n=groups * SIZE)
    order = trees.y.argsort(stable=True)
    whole = torch.cat(
        [rows[: rows.numel() // SIZE * SIZE] for rows in order.split(trees.y.bincount().tolist())]
    )
    return CandidatePool(trees.select(whole), SIZE, seed)


def expected_means(tilt, pool):
    found = pool.statistics(tilt.statistics)
    shared, by_class = tilt._standardized(found)
    score = shared @ tilt.weight + (by_class * tilt.class_weight[pool.trees.y]).sum(dim=1)
    chance = score.view(-1, SIZE).softmax(dim=1).view(-1, 1) / pool.num_groups
    return (chance * shared).sum(dim=0), shared.mean(dim=0)


def test_selected_trees_have_the_means_of_the_source():
    source = trees_with_signal(0.6, 0.3, 0, n=4000)
    pool = pool_of(0.35, 0.45)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), pool)
    after, before = expected_means(tilt, pool)  # those of the source are zero
    assert float(before.abs().max()) > 0.3
    assert float(after.abs().max()) < 0.05 and float(after.abs().mean()) < 0.02
    fresh, _ = expected_means(tilt, pool_of(0.35, 0.45, seed=9))  # candidates it was not fitted to
    assert float(fresh.abs().mean()) < 0.03


def test_a_pool_like_the_source_is_hardly_tilted():
    source, pool = trees_with_signal(0.6, 0.3, 0, n=4000), pool_of(0.6, 0.3)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), pool)
    score = tilt._scores(pool.statistics(tilt.statistics), pool.trees.y)
    chance = score.view(-1, SIZE).softmax(dim=1)
    assert float((1 / chance.square().sum(dim=1)).mean()) > 0.9 * SIZE


def test_rare_labels_borrow_from_the_others():
    """A label with 40 roots is tilted as those with more than a thousand are."""
    source = trees_with_signal(0.7, 0.3, 0, n=4000)
    rare = (source.y == 2).nonzero().view(-1)[40:]
    keep = torch.ones(len(source), dtype=torch.bool)
    keep[rare] = False
    source = source.select(keep.nonzero().view(-1))
    pool = pool_of(0.35, 0.3)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), pool)
    kept = tilt.select(pool)
    agree = (kept.tokens[:, 0] == kept.y).double()
    common, of_rare = float(agree[kept.y != 2].mean()), float(agree[kept.y == 2].mean())
    assert common == pytest.approx(0.8, abs=0.03)  # 0.7 + 0.3 / 3
    assert of_rare > 0.65  # the pool has 0.57


def test_labels_without_candidates_or_without_roots_are_no_error():
    source = trees_with_signal(0.6, 0.3, 0, n=600)
    pool = pool_of(0.4, 0.3, groups=200)
    with_all = (source.y != 1).nonzero().view(-1)
    groups = (pool.trees.y != 0).nonzero().view(-1)
    pool = CandidatePool(pool.trees.select(groups), SIZE, 0)
    source = source.select(with_all)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), pool)
    assert tilt.weight.isfinite().all() and tilt.class_weight.isfinite().all()
    assert len(tilt.select(pool)) == pool.num_groups


def test_candidates_are_chosen_in_proportion_to_their_weights():
    trees = trees_with_signal(0.5, 0.5, 0, n=40_000)
    pool = CandidatePool(replace(trees, y=torch.zeros(40_000).long()), 4, 0)
    score = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().repeat(10_000)
    chosen = pool.choose(score, draw=0)
    assert torch.equal(chosen // 4, torch.arange(10_000))  # one of each group
    share = torch.bincount(chosen % 4) / 10_000
    assert torch.allclose(share, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.02)
    assert torch.equal(chosen, pool.choose(score, draw=0))
    assert not torch.equal(chosen, pool.choose(score, draw=1))


def test_probes_on_selected_trees_score_as_on_the_source():
    """All views at once: the root is too weak, and children are too strong, in the pool."""
    real = [trees_with_signal(0.6, 0.25, seed=0, n=3000)]
    aim = view_scores(real[0], torch.eye(3))
    pool = pool_of(0.3, 0.45)
    tilt, match = match_views(real, torch.eye(3), torch.arange(3), torch.eye(3), pool)
    fresh = tilt.select(pool_of(0.3, 0.45, seed=5))
    found = view_scores(fresh, torch.eye(3))
    untouched = view_scores(fresh_without_tilt(5), torch.eye(3))
    assert max(abs(untouched[name] - aim[name]) for name in aim) > 0.12
    assert max(abs(found[name] - aim[name]) for name in aim) < 0.05
    assert match.aim == pytest.approx(aim) and match.candidates == SIZE
    assert 1 <= match.effective <= SIZE and len(match.rounds) == 4


def fresh_without_tilt(seed):
    pool = pool_of(0.3, 0.45, seed=seed)
    return pool.trees.select(torch.arange(pool.num_groups) * SIZE)


def test_of_a_small_release_the_closest_selection_is_kept():
    real = [trees_with_signal(0.6, 0.25, seed=0, n=400)]
    pool = pool_of(0.5, 0.3, groups=400)
    tilt, match = match_views(
        real, torch.eye(3), torch.arange(3), torch.eye(3), pool, is_release=True
    )

    def error(trees):
        found = view_scores(trees, torch.eye(3))
        return sum((found[name] - match.aim[name]) ** 2 for name in found)

    others = []
    for draw in range(100, 106):
        other = ViewTilt.from_tensors(tilt.tensors(), pool.trees.shape)
        other.draw = draw
        others.append(error(other.select(pool)))
    assert error(tilt.select(pool)) < sorted(others)[2]


def test_a_tilt_that_was_written_selects_the_same_trees():
    source, pool = trees_with_signal(0.6, 0.3, 0, n=600), pool_of(0.4, 0.4, groups=200)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), pool)
    tilt.draw = 3
    again = ViewTilt.from_tensors(tilt.tensors(), source.shape)
    assert torch.equal(again.select(pool).tokens, tilt.select(pool).tokens)
    assert again.draw == 3 and is_train(source).any()


def test_all_trees_of_a_root_are_in_one_fold(monkeypatch):
    """Otherwise a probe would have seen the root in another draw of its neighbours."""
    real, folds = [trees_with_signal(0.6, 0.3, seed=0, n=300)] * 3, []
    fit = ViewTilt.fit

    def spy(source, fold, *rest):
        folds.append(fold)
        return fit(source, fold, *rest)

    monkeypatch.setattr(ViewTilt, 'fit', spy)
    pool = pool_of(0.5, 0.3, groups=100)
    match_views(real, torch.eye(3), torch.arange(3), torch.eye(3), pool)
    (fold,) = folds
    assert torch.equal(fold[:300], fold[300:600]) and torch.equal(fold[:300], fold[600:])
    assert set(fold.tolist()) == {0, 1, 2}


def test_the_tilt_does_not_make_up_for_labels_that_a_split_has_drawn_too_often():
    """Roots say nothing about the label, in the source and in the pool. Where the training split
    of the pool has more roots of a label than that of the source, trees stay as they are: else
    roots of the training split and of the test split would speak for opposite labels.
    """
    source, pool = no_signal(0, 0.5), no_signal(1, 0.8, SIZE)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), CandidatePool(pool, SIZE, 0))
    kept = tilt.select(CandidatePool(pool, SIZE, 0))
    own = (kept.tokens[:, 0] == kept.y).double()
    train = is_train(kept)
    assert abs(float(own[train].mean()) - float(own[~train].mean())) < 0.04


def no_signal(seed, train_share, size=1):
    """Trees whose tokens do not depend on the label; the first label is in the training split
    with the given probability, the others in half of all cases.
    """
    trees = trees_with_signal(0.0, 0.0, seed, n=2400 * size)
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (2400,), generator=rng).repeat_interleave(size)
    share = torch.where(y[::size] == 0, train_share, 0.5)
    in_train = torch.rand(2400, generator=rng) < share
    split = torch.where(in_train, 1, 4).repeat_interleave(size)  # train or test
    return replace(trees, y=y, split=split.to(trees.split.dtype))


def test_the_calibration_of_two_labels_does_not_oscillate():
    """Scores of two labels change several times as fast as the mean probability of the label."""
    real = [two_labels(trees_with_signal(0.15, 0.1, seed=0, n=3000))]
    pool = CandidatePool(two_labels(pool_of(0.05, 0.05).trees), SIZE, 1)
    _, match = match_views(real, torch.eye(3), torch.arange(3), torch.eye(3), pool)
    for score in match.rounds:
        assert max(abs(score[name] - match.aim[name]) for name in match.aim) < 0.03


def two_labels(trees):
    return replace(trees, y=trees.y.clamp(max=1), num_classes=2)


def test_the_response_of_scores_is_learned_from_large_steps():
    response, planned = Response(), torch.full((7,), 0.02)
    first = response.gain
    response.observe(planned / 1000, planned)  # noise
    assert response.gain == pytest.approx(first, rel=0.1)
    response.observe(planned, 6 * planned)
    assert response.gain == pytest.approx(6, rel=0.1)
    response.observe(planned, -60 * planned)
    assert response.gain == 0.5
