"""The calibration of the tilt: networks score on selected trees as on the source."""

from dataclasses import replace

import pytest
import torch

from tests.helpers.view_trees import SIZE, pool_of, trees_with_signal
from torch_geometric_cgt.models import view_calibration
from torch_geometric_cgt.models.candidates import CandidatePool
from torch_geometric_cgt.models.view_calibration import (
    MAX_DRAWS,
    MAX_ROUNDS,
    SCORE_SEEDS,
    Response,
    aim_of,
    match_views,
    num_trainings,
)
from torch_geometric_cgt.models.view_tilt import ViewTilt
from torch_geometric_cgt.nn import view_networks
from torch_geometric_cgt.nn.view_networks import network_scores


def test_networks_on_selected_trees_score_as_on_the_source():
    """All views at once: the root is too weak, and children are too strong, in the pool."""
    real = [trees_with_signal(0.6, 0.25, seed=0, n=3000)]
    aim = network_scores(real[0], torch.eye(3))
    pool = pool_of(0.3, 0.45)
    tilt, match = match_views(real, torch.eye(3), torch.arange(3), torch.eye(3), pool)
    fresh = tilt.select(pool_of(0.3, 0.45, seed=5))
    found = network_scores(fresh, torch.eye(3))
    untouched = network_scores(fresh_without_tilt(5), torch.eye(3))
    assert max(abs(untouched[name] - aim[name]) for name in aim) > 0.12
    assert max(abs(found[name] - aim[name]) for name in aim) < 0.05
    assert match.aim == pytest.approx(aim) and match.candidates == SIZE
    assert 1 <= match.effective <= SIZE and len(match.rounds) == MAX_ROUNDS + 1


def fresh_without_tilt(seed):
    pool = pool_of(0.3, 0.45, seed=seed)
    return pool.trees.select(torch.arange(pool.num_groups) * SIZE)


def test_of_a_small_release_the_closest_selection_is_kept(monkeypatch):
    real, seen = [trees_with_signal(0.6, 0.25, seed=0, n=400)], []
    pool = pool_of(0.5, 0.3, groups=400)

    def spy(trees, x, seed=0):
        seen.append(network_scores(trees, x, seed))
        return seen[-1]

    monkeypatch.setattr(view_calibration, 'network_scores', spy)
    tilt, match = match_views(
        real, torch.eye(3), torch.arange(3), torch.eye(3), pool, is_release=True
    )

    def error(found):
        return sum((found[name] - match.aim[name]) ** 2 for name in found)

    kept = error(network_scores(tilt.select(pool), torch.eye(3), seed=tilt.draw))
    of_source = 2 * SCORE_SEEDS  # they come first
    selections = [error(found) for found in seen[of_source:]]
    assert len(selections) == (MAX_ROUNDS + 1) * MAX_DRAWS
    assert kept == pytest.approx(min(selections)) and kept < max(selections) / 2


def test_candidates_that_do_not_differ_leave_nothing_to_choose(monkeypatch):
    """One candidate per group, so that no parameter changes a score."""
    monkeypatch.setattr(view_networks, 'EPOCHS', 2)
    real, x = [trees_with_signal(0.6, 0.25, seed=0, n=400)], torch.eye(3)
    pool = CandidatePool(trees_with_signal(0.5, 0.3, seed=1, n=400), 1, 0)
    tilt, match = match_views(real, x, torch.arange(3), x, pool)
    assert len(match.rounds) == MAX_ROUNDS + 1 and tilt.weight.isfinite().all()
    assert torch.equal(tilt.select(pool).tokens, pool.trees.tokens)


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


def test_the_calibration_of_two_labels_does_not_oscillate():
    """Scores of two labels change several times as fast as the mean probability of the label. On
    average over the views: a single network may fail to learn."""
    real = [two_labels(trees_with_signal(0.15, 0.1, seed=0, n=6000))]
    pool = CandidatePool(two_labels(pool_of(0.05, 0.05, groups=3000).trees), SIZE, 4)
    _, match = match_views(real, torch.eye(3), torch.arange(3), torch.eye(3), pool)
    for score in match.rounds:
        gaps = [abs(score[name] - aim) for name, aim in match.aim.items()]
        assert sum(gaps) / len(gaps) < 0.02


def two_labels(trees):
    return replace(trees, y=trees.y.clamp(max=1), num_classes=2)


def test_the_response_of_scores_is_learned_from_large_steps():
    response, planned = Response.guess(num_classes=2), torch.full((7,), 0.02)
    first = response.gain
    response.observe(planned / 1000, planned)  # noise
    assert response.gain == pytest.approx(first, rel=0.1)
    response.observe(planned, 6 * planned)
    assert response.gain == pytest.approx(6, rel=0.1)
    response.observe(planned, -60 * planned)
    assert response.gain == 0.5


def test_the_aim_makes_up_for_what_gnns_lose():
    original = [
        {'root': 0.7, '1 hop': 0.9, '2 hops': 0.9},
        {'root': 0.8, '1 hop': 0.8, '2 hops': 1},
    ]
    quantized = [{'root': 0.6, '1 hop': 0.75, '2 hops': 0.9}]
    # By views alone: half of 0.10 and of 0.05, which is 0.0375 on average.
    expected = {'root': 0.75, '1 hop': 0.8, '2 hops': 0.925}
    assert aim_of(original, quantized, -0.0375) == pytest.approx(expected)
    raised = {'root': 0.75, '1 hop': 0.7625 - 0.02, '2 hops': 0.8875 - 0.02}  # GNNs gain 0.02
    assert aim_of(original, quantized, 0.02) == pytest.approx(raised)


def test_scores_of_few_training_trees_are_averaged():
    trees = trees_with_signal(0.6, 0.3, seed=0, n=500)
    few = replace(trees, split=torch.full((500,), 4))
    few.split[:100] = 1
    assert num_trainings(few, 250, 4) == 2 and num_trainings(few, 5000, 4) == 4
    assert num_trainings(few, 99, 4) == 1
    few.split[:100] = 4  # no training trees: half of the others are trained on
    assert num_trainings(few, 5000, 4) == 4


def test_scores_of_a_tiny_release_are_not_calibrated(monkeypatch):
    """They would be noise. Means are matched all the same."""
    monkeypatch.setattr(view_calibration, 'network_scores', None)
    real = [trees_with_signal(0.6, 0.3, seed=0, n=300)]
    pool = pool_of(0.3, 0.45, groups=100)
    tilt, match = match_views(real, torch.eye(3), torch.arange(3), torch.eye(3), pool, True)
    assert match.rounds == [] and match.aim == {} and 1 < match.effective < SIZE
    assert tilt.weight.abs().sum() > 0
