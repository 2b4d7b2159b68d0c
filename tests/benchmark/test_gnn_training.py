import pytest
import torch
from sklearn.metrics import f1_score

from tests.helpers.trees import SHAPE, encoded
from torch_geometric_cgt.benchmark import ALL_MODELS, GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.gnn_training import (
    batches,
    evaluate_gnn,
    fit,
    gnn_accuracy,
    logits_of,
    score_gnns,
    train_gnn,
)


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
