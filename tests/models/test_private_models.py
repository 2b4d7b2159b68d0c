"""Private models of trees: what one tree can do to them, and what they learn."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.trees import apply_null_rule
from torch_geometric_cgt.audit.epsilon_bounds import epsilon_lower_bound
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.models.dp_transformer import PrivateGenerator
from torch_geometric_cgt.models.histograms import (
    Layer,
    PrivateHistograms,
    TreeCounts,
    plan_histograms,
)
from torch_geometric_cgt.models.label_scenes import agreement_prior, label_evidence, scenes_of
from torch_geometric_cgt.models.noisy_tables import back_off, couple, project_to_simplex, token_rows
from torch_geometric_cgt.privacy import Budget, DiscreteGaussian, Entry, Gaussian, Ledger
from torch_geometric_cgt.privacy.accounting import Loss, epsilon_of

NUM_TOKENS, NUM_CLASSES = 5, 2


def learn(model, tokens, y, entries, noise):
    """Fits a model to given trees."""
    sizes = (model.num_tokens, model.num_classes, model.shape)
    source = TreeSource(lambda index, _: tokens[index], y, torch.zeros_like(y), *sizes)
    model.fit(source, FitContext(entries=entries, noise=noise))
    return model


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_trees(size, shape, seed=0, num_tokens=NUM_TOKENS):
    """Any trees that obey the null rule."""
    tokens = torch.randint(num_tokens + 2, (size, shape.num_slots), generator=rng(seed))
    tokens = tokens.clamp(max=num_tokens)
    return apply_null_rule(tokens, num_tokens, shape)


def counts_of(tokens, shape, group):
    for depth in range(1, shape.depth + 1):
        layer = Layer(tokens, shape, depth, NUM_TOKENS)
        yield layer.count_numbers(group, NUM_CLASSES)
        yield layer.count_tokens(group, NUM_CLASSES)
        if depth > 1:
            yield layer.count_returns()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 1000))
def test_no_tree_moves_a_histogram_by_more_than_one(fan_outs, seed):
    shape = TreeShape.of(fan_outs)
    tokens = draw_trees(6, shape, seed)
    tokens[-1] = 0  # a tree without null that fills one bin again and again
    group = torch.arange(6) % NUM_CLASSES
    keep = torch.arange(6)
    hardly = 1e-7  # of noise
    for i in (0, 5):
        rest = keep[keep != i]
        less = counts_of(tokens[rest], shape, group[rest])
        for whole, part in zip(counts_of(tokens, shape, group), less, strict=True):
            moved = whole.noisy(hardly, rng()) - part.noisy(hardly, rng(1))
            assert float(moved.norm()) <= 1 + 1e-4


def test_a_histogram_of_trees_keeps_its_claim_and_half_the_noise_does_not():
    """Noise on bins is independent: each pair of bins is one draw, with three trees or two."""
    delta, sigma, draws = 0.02, 1.0, 20_000

    def scores(num_trees, sigma, seed):
        tree = torch.arange(num_trees * draws)
        bins = 2 * (tree % draws)[:, None] + torch.tensor([0, 1])  # two counts of each tree
        counts = TreeCounts(
            tree.repeat_interleave(2), bins.flatten(), tree.numel(), (draws, 2), most=2
        )
        return counts.noisy(sigma, rng(seed)).sum(dim=1)

    claim = epsilon_of([Loss(Gaussian(sigma), 1.0)], delta)[0]
    found = epsilon_lower_bound(scores(3, sigma, 0), scores(2, sigma, 1), delta)
    assert 0.5 * claim < found <= claim
    assert epsilon_lower_bound(scores(3, sigma / 2, 0), scores(2, sigma / 2, 1), delta) > claim


def test_counts_by_hand():
    shape = TreeShape.of([2, 2])
    #                      root, two children, children of each (5 is null)
    tokens = torch.tensor([[0, 1, 5, 0, 2, 5, 5], [3, 5, 5, 5, 5, 5, 5]])
    first, second = (Layer(tokens, shape, depth, NUM_TOKENS) for depth in (1, 2))
    assert first.number.tolist() == [[1], [0]]
    assert second.number.tolist() == [[2, 0], [0, 0]]
    assert second.returns[0].tolist() == [[True, False], [False, False]]  # 0 is above 1
    group = torch.tensor([0, 1])
    tokens_below = second.count_tokens(group, NUM_CLASSES)
    assert (tokens_below.tree.tolist(), tokens_below.bin.tolist()) == ([0], [2])
    assert tokens_below.most == 4
    returns = second.count_returns()
    assert (returns.tree.tolist(), returns.bin.tolist()) == ([0], [3])  # two children, with return


def test_projection_by_hand():
    x = torch.tensor([[3.0, -1.0, 0.0]], dtype=torch.double)
    assert project_to_simplex(x, torch.tensor([2.0])).tolist() == [[2.0, 0.0, 0.0]]
    x = torch.tensor([[1.0, 1.0, -5.0]], dtype=torch.double)
    assert project_to_simplex(x, torch.tensor([1.0])).tolist() == [[0.5, 0.5, 0.0]]


def test_back_off_goes_from_counts_to_what_all_rows_have_in_common():
    counts = torch.tensor([[90.0, 10.0], [10.0, 90.0]], dtype=torch.double)
    clear = back_off(counts, 1e-3)
    assert torch.allclose(clear, counts / 100, atol=1e-3)
    vague = back_off(counts, 1e6)
    assert torch.allclose(vague, torch.full((2, 2), 0.5, dtype=torch.double), atol=0.01)
    assert torch.allclose(back_off(counts, 30.0).sum(dim=1), torch.ones(2, dtype=torch.double))


def test_a_coupling_has_the_margins_it_was_given():
    joint = torch.rand(3, 2, 4, generator=rng(), dtype=torch.double)
    joint /= joint.sum()
    a, b = couple(joint.sum(2), joint.sum(1), joint.sum(0))
    found = torch.stack([token_rows(a[y], b, torch.ones(4) / 4) for y in range(3)])
    found = found * joint.sum(2)[:, :, None]
    assert torch.allclose(found.sum(1), joint.sum(1), atol=1e-6)
    assert torch.allclose(found.sum(0), joint.sum(0), atol=1e-6)


def test_scenes_by_hand():
    shape = TreeShape.of([2])
    table = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.double)
    evidence = label_evidence(table, torch.tensor([0.5, 0.5], dtype=torch.double))
    assert torch.equal(evidence[2], torch.zeros(2, dtype=torch.double))
    tokens = torch.tensor([[0, 1, 2], [1, 2, 2], [0, 1, 1]])  # one child counts half, two tie
    assert scenes_of(tokens, evidence, shape)[:2].tolist() == [0, 1]
    prior = agreement_prior(torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.double))
    assert torch.allclose(prior, torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.double))


def make(form, num_trees, shape, epsilon=1e3):
    sizes = (NUM_TOKENS, NUM_CLASSES, list(shape.num_neighbors))
    if form == 'histograms':
        model = PrivateHistograms(*sizes)
    else:
        config = {'hidden_channels': 16, 'epochs': 15.0, 'batch_size': 100, 'lr': 0.02}
        torch.manual_seed(0)
        model = PrivateGenerator(*sizes, num_trees, config)
    entries = model.entries()
    ledger = Ledger(['sequence model'], entries).calibrate(Budget(epsilon, 1e-4))
    return model, ledger.entries


@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
@pytest.mark.parametrize('fan_outs', [(3, 2), (2, 2, 2)])
def test_drawn_trees_obey_the_null_rule_and_look_like_those_counted(form, fan_outs):
    shape = TreeShape.of(fan_outs)
    y = torch.arange(800) % NUM_CLASSES
    tokens = draw_trees(800, shape)
    # Trees of label 0 have low tokens, those of label 1 high ones.
    real = tokens < NUM_TOKENS
    tokens[real] = (tokens % 2 + 2 * y[:, None])[real]
    model, entries = make(form, 800, shape)
    with pytest.raises(ValueError, match='call fit'):
        model.sample(y)
    learn(model, tokens, y, entries, rng())
    drawn = model.sample(y, rng(1))
    assert shape.check_nulls(drawn < NUM_TOKENS) and (drawn[:, 0] < NUM_TOKENS).all()
    of_label = [(drawn[y == c] // 2)[drawn[y == c] < NUM_TOKENS] == c for c in (0, 1)]
    assert min(float(x.double().mean()) for x in of_label) > 0.8
    share = [float((t < NUM_TOKENS).double().mean()) for t in (tokens, drawn)]
    assert abs(share[0] - share[1]) < 0.05


@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
def test_noise_that_was_not_paid_for_is_refused(form):
    shape = TreeShape.of((3, 2))
    tokens, y = draw_trees(800, shape), torch.arange(800) % NUM_CLASSES
    model, entries = make(form, 800, shape)
    with pytest.raises(ValueError, match="no entry 'root tokens per label'"):
        learn(model, tokens, y, entries[1:], rng())
    dearer = Entry('sequence model', entries[0].name, 'record', 2.0, DiscreteGaussian(1.0))
    with pytest.raises(ValueError, match='not the one that runs'):
        learn(model, tokens, y, [dearer, *entries[1:]], rng())
    assert model.entries()[0].noise == DiscreteGaussian(1.0)


def test_the_number_of_trees_is_a_part_of_what_is_paid_for():
    shape = TreeShape.of((3, 2))
    model, entries = make('dp_sgd', 800, shape)
    tokens, y = draw_trees(900, shape), torch.arange(900) % NUM_CLASSES
    with pytest.raises(ValueError, match='planned for 800 trees'):
        learn(model, tokens, y, entries, rng())


def test_entries_of_deeper_trees_share_one_budget():
    totals = [sum(e.share for e in plan_histograms(depth)) for depth in (2, 3, 4)]
    assert totals == pytest.approx(3 * [1.0])
