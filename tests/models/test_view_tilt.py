"""The tilt: selected trees have the means of the source."""

from dataclasses import replace

import pytest
import torch

from tests.helpers.view_trees import SIZE, pool_of, trees_with_signal
from torch_geometric_cgt.models.candidates import CandidatePool, is_train, random_folds
from torch_geometric_cgt.models.view_tilt import ViewTilt


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
    score = tilt.scores(pool.statistics(tilt.statistics), pool.trees.y)
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


def test_a_tilt_that_was_written_selects_the_same_trees():
    source, pool = trees_with_signal(0.6, 0.3, 0, n=600), pool_of(0.4, 0.4, groups=200)
    fold = random_folds(len(source), torch.Generator().manual_seed(77))
    tilt = ViewTilt.fit(source, fold, torch.eye(3), pool)
    tilt.draw = 3
    again = ViewTilt.from_tensors(tilt.tensors(), source.shape)
    assert torch.equal(again.select(pool).tokens, tilt.select(pool).tokens)
    assert again.draw == 3 and is_train(source).any()


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
