from dataclasses import replace

import pytest
import torch

from tests.helpers.zoo import easy_trees
from torch_geometric_cgt.benchmark.zoo import (
    FLOOR,
    PLAIN,
    ZOO,
    ZooConfig,
    ZooTrees,
    mean_length,
    resplit,
    train_zoo,
    zoo_metrics,
    zoo_scores,
)
from torch_geometric_cgt.data.token_trees import SparseRows

QUICK = ZooConfig(epochs=12, patience=12)
LONGER = ZooConfig(epochs=40, patience=12)


@pytest.fixture(scope='module')
def trees():
    return easy_trees()


@pytest.fixture(scope='module')
def scores(trees):
    return zoo_scores(trees, [*ZOO, *PLAIN], 0, LONGER)


def test_every_model_learns_and_the_floor_does_not(scores):
    learned = {name: score for name, score in scores.items() if name not in FLOOR}
    assert len(learned) == len(ZOO) - 1 + len(PLAIN)
    assert min(learned.values()) > 0.6  # chance is 1/3
    assert all(scores[name] < 0.5 for name in FLOOR)


def test_the_same_seed_gives_the_same_scores(trees, scores):
    models = ['GAT', 'SAGE-max', 'Shuffled']
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    again = zoo_scores(trees, models, 0, LONGER)
    assert again == {name: scores[name] for name in models}
    assert torch.equal(torch.random.get_rng_state(), before)  # the caller's state is untouched
    batches = ZooTrees(trees)
    weights = [train_zoo('MLP', batches, seed, QUICK).state_dict() for seed in (0, 0, 1)]
    key = 'inputs.out.weight'
    assert torch.equal(weights[0][key], weights[1][key])
    assert not torch.equal(weights[0][key], weights[2][key])


def test_a_model_can_be_tested_on_other_trees(trees):
    batches = ZooTrees(trees)
    model = train_zoo('GCN', batches, 0, QUICK)
    other = easy_trees(seed=1)
    other = ZooTrees(replace(other, x=trees.x))  # other trees of the same tokens
    assert zoo_metrics(model, other.test)['accuracy'] > 0.6
    shuffled = ZooTrees(replace(trees, x=trees.x.flip(0)))
    assert zoo_metrics(model, shuffled.test)['accuracy'] < 0.5


def test_the_scale_of_features_makes_no_difference(trees):
    large = replace(trees, x=trees.x * 64)  # a power of two: the same digits
    models = ['MLP', 'GIN']
    assert zoo_scores(large, models, 0, QUICK) == zoo_scores(trees, models, 0, QUICK)


def test_mean_length_counts_slots(trees):
    slots = trees.tokens[trees.real]
    expected = float(trees.x[slots].norm(dim=1).double().mean())
    assert mean_length(trees) == pytest.approx(expected, rel=1e-6)
    sparse = replace(trees, x=SparseRows.from_matrix(trees.x))
    assert mean_length(sparse) == pytest.approx(expected, rel=1e-6)


def test_two_classes_are_scored_by_roc_auc():
    trees = easy_trees(num_classes=2)
    batches = ZooTrees(trees)
    assert batches.metric == 'roc_auc' and ZooTrees(easy_trees()).metric == 'accuracy'
    found = zoo_metrics(train_zoo('SAGE', batches, 0, QUICK), batches.test)
    assert set(found) == {'accuracy', 'roc_auc'}
    for metric in (None, 'roc_auc', 'accuracy'):
        score = zoo_scores(batches, ['SAGE'], 0, QUICK, metric)['SAGE']
        assert score == found[metric or 'roc_auc']
    with pytest.raises(ValueError, match=r"'roc_auc'.*accuracy"):
        zoo_scores(easy_trees(), ['MLP'], 0, ZooConfig(epochs=1), 'roc_auc')


def test_another_split_has_the_same_sizes(trees):
    again = resplit(trees, 0)
    assert torch.equal(again.split.sort().values, trees.split.sort().values)
    assert not torch.equal(again.split, trees.split) and torch.equal(again.tokens, trees.tokens)
    assert torch.equal(resplit(trees, 0).split, again.split)
    assert not torch.equal(resplit(trees, 1).split, again.split)


def test_batches_hold_each_root_once(trees):
    batches = ZooTrees(trees, batch_size=50)
    assert [b.y.numel() for b in batches.train] == [40, 40, 40]
    assert [sum(b.y.numel() for b in part) for part in (batches.val, batches.test)] == [24, 96]


def test_wrong_input(trees):
    with pytest.raises(ValueError, match=r"'Nope'.*GCN"):
        zoo_scores(trees, ['Nope'])
    with pytest.raises(ValueError, match='no training roots'):
        ZooTrees(replace(trees, split=torch.full_like(trees.split, 4)))
