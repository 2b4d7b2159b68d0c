import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.trees import SHAPE, encoded, random_tokens
from torch_geometric_cgt.benchmark import GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.gnn_training import evaluate_gnn, gnn_accuracy, train_gnn
from torch_geometric_cgt.benchmark.sampling_gnns import (
    adjacency,
    estimator_variance,
    importance_weights,
    sample_categorical,
)
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.nn.tree_convs import parents_with_children

NAMES = ['FastGCN', 'AS-GCN']  # that sample per layer


@given(
    st.lists(st.sampled_from([0.0, 1e-30, 0.3, 5.0]), min_size=1, max_size=9), st.integers(0, 99)
)
def test_impossible_positions_are_never_drawn(chance, seed):
    torch.manual_seed(seed)
    position = sample_categorical(torch.tensor(chance), 50)
    drawn = torch.tensor(chance)[position]
    assert (drawn > 0).all() if max(chance) > 0 else (position == 0).all()


def test_adjacency_by_hand():
    real = torch.tensor([[True, True, False, True, True, False, False, False, True, True]])
    root, children = adjacency(real, SHAPE)
    assert root[0].tolist() == [pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])]
    assert children[0].tolist() == [
        pytest.approx([1 / 2, 1 / 2, 0]),
        [0, 0, 0],
        pytest.approx([1 / 3, 1 / 3, 1 / 3]),
    ]


def test_fastgcn_draws_by_the_squared_column_norm():
    model = make_gnn('FastGCN', 2, 2, TreeShape.of([3]))
    _, (chance,) = model.candidates(torch.randn(2, 2), torch.tensor([[0, 1, 2, 2], [0, 1, 1, 1]]))
    assert chance.tolist() == [[[1 / 4, 1 / 4, 0, 0]], [[1 / 16] * 4]]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1, 6), st.integers(0, 1000))
def test_null_slots_are_never_drawn_and_the_number_of_draws_is_as_said(name, num, seed):
    tokens = random_tokens(SHAPE, 5, 20, seed)
    x = torch.randn(20, 4)
    model = make_gnn(name, 4, 3, SHAPE, num_sampled=num)
    rows, chances = model.candidates(x, tokens)
    chances = [chance.detach() for chance in chances]
    steps = model.sample(rows, chances)
    assert [len(step) for step in steps] == [2, 1]
    real = parents_with_children(tokens < 20, SHAPE)
    for step in steps:
        for weight, mask in zip(step, real, strict=False):
            assert torch.isfinite(weight).all()
            assert not (weight != 0)[~mask].any()
    top = steps[-1][0] / rows[0].clamp(min=1e-9) * chances[0]  # counts, up to a factor
    assert float(top.sum()) == pytest.approx(float(chances[0].sum()), rel=1e-4)


def test_a_layer_without_real_parents_is_left_out():
    model = make_gnn('AS-GCN', 4, 3, SHAPE, num_sampled=2)
    tokens = torch.full((4, SHAPE.num_slots), 7)
    tokens[:, 0] = 0
    assert torch.isfinite(model.loss(torch.randn(7, 4), tokens, torch.zeros(4, dtype=torch.long)))


@pytest.mark.parametrize('name', NAMES)
@torch.no_grad()
def test_the_estimate_is_unbiased(name):
    # Without non-linearities, the expectation is the GCN of the same weights.
    torch.manual_seed(0)
    x, tokens = torch.randn(20, 4), random_tokens(SHAPE, 6, 20)
    model = make_gnn(name, 4, 3, SHAPE, num_sampled=2).eval()
    full = make_gnn('GCN', 4, 3, SHAPE).eval()
    full.load_state_dict(model.state_dict(), strict=False)
    model.act = full.act = False
    draws = model(x, tokens.repeat(3000, 1)).view(3000, 6, 3)  # all draw from one pool
    error = (draws.mean(dim=0) - full(x, tokens)) / (draws.std(dim=0) / 3000**0.5)
    assert error.abs().max() < 4
    assert draws.std(dim=0).max() > 0.1  # there was something to be unbiased about


@torch.no_grad()
def test_the_variance_is_the_variance():
    torch.manual_seed(0)
    tokens = random_tokens(TreeShape.of([3]), 5, 9).repeat(5000, 1)
    p = adjacency(tokens < 9, TreeShape.of([3]))[0]
    h, chance = (
        torch.randn(5, 4, 3).repeat(5000, 1, 1),
        p * (1 + torch.rand(5, 1, 4)).repeat(5000, 1, 1),
    )
    draws = ((p * importance_weights(chance, 2))[:, 0, :, None] * h).sum(dim=1)
    expected = estimator_variance(h, p[:, 0], chance[:, 0], 2)
    assert torch.allclose(draws.view(5000, 5, 3).var(dim=0), expected[:5], rtol=0.15)


def test_the_sampler_gets_a_gradient_from_the_variance_alone():
    x, tokens = torch.randn(20, 4), random_tokens(SHAPE, 6, 20)
    y = torch.zeros(6, dtype=torch.long)
    model = make_gnn('AS-GCN', 4, 3, SHAPE, num_sampled=2)
    model.loss(x, tokens, y).backward()
    assert model.score.weight.grad.abs().max() > 0
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(x, tokens), y).backward()
    assert model.score.weight.grad is None


def test_asgcn_learns_to_avoid_children_that_tell_nothing():
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(2, (300,), generator=rng)
    tokens = torch.stack([torch.full_like(y, 3), y, y, *[torch.full_like(y, 2)] * 2], dim=1)
    x = 3 * torch.eye(4)  # two rows that tell the label, one that is noise, and the root
    split = 1 + 3 * (torch.arange(300) % 2)
    trees = TokenTrees(tokens, y, split, 4, 2, TreeShape.of([4]), x)
    config = GNNConfig(sampled_lr=0.01, epochs=40, batch_size=50, num_sampled=2)
    model = train_gnn('AS-GCN', trees, config, seed=0)
    _, (chance,) = model.candidates(x, tokens[:2])
    assert (chance[:, 0, 1:3].min() > 1.3 * chance[:, 0, 3:].max()).all()


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(['GraphSAGE', 'PASS']),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_what_is_drawn_is_a_part_of_the_tree(name, num_neighbors, num, seed):
    shape = TreeShape.of(num_neighbors)
    tokens = random_tokens(shape, 6, 50, seed)
    x = torch.randn(50, 4)
    model = make_gnn(name, 4, 3, shape, num_sampled=num)
    rows, weight = model.sample(x, tokens)
    assert rows.shape == weight.shape == (6, model.shape.num_slots)
    assert torch.equal(weight != 0, rows < 50)  # null slots have no weight, others one
    assert torch.equal(weight[weight != 0].float(), torch.ones(int((weight != 0).sum())))
    assert model.shape.check_nulls(rows < 50)
    # Root and children: what is drawn are children, as many as there are or as asked for.
    for full, drawn in zip(tokens, rows, strict=True):
        children = full[shape.layer_slice(1)].tolist()
        chosen = [r for r in drawn[model.shape.layer_slice(1)].tolist() if r < 50]
        real = [c for c in children if c < 50]
        assert set(chosen) <= set(real)
        if name == 'GraphSAGE':
            assert len(chosen) == min(num, len(real))
            assert all(chosen.count(c) <= real.count(c) for c in chosen)
        else:
            assert len(chosen) == (num if real else 0)


def test_every_child_is_drawn_alike_often():
    shape = TreeShape.of([4])
    model = make_gnn('GraphSAGE', 2, 2, shape, num_sampled=2)
    tokens = torch.tensor([[0, 1, 9, 2, 3]]).repeat(3000, 1)
    torch.manual_seed(0)
    rows, _ = model.sample(torch.randn(9, 2), tokens)
    count = rows[:, 1:].flatten().bincount(minlength=10)
    assert count[[0, 9]].sum() == 0
    assert (count[1:4] / 3000).tolist() == pytest.approx([2 / 3] * 3, abs=0.04)


def test_the_sampler_gets_the_gradient_of_the_expected_loss():
    torch.manual_seed(0)
    model = make_gnn('PASS', 4, 3, TreeShape.of([3]), num_sampled=2).eval()
    sampler, conv = model.sampler, model.convs[0]
    x, tokens = torch.randn(5, 4), torch.tensor([[0, 1, 5, 2]])
    direction = torch.randn(3)
    h = sampler.project(x)
    q = sampler.probability(h, tokens[:, :1], tokens[:, None, 1:], tokens[:, None, 1:] < 5)
    assert q.sum().item() == pytest.approx(1) and q[0, 0, 1] == 0
    messages = conv.project(x)[[1, 2], :3]
    expected = (q[0, 0, [0, 2], None] * messages).sum(dim=0) @ direction
    exact = torch.autograd.grad(expected, sampler.parameters())
    drawn = (model(x, tokens.repeat(20_000, 1)) @ direction).mean()
    estimate = torch.autograd.grad(drawn, list(sampler.parameters()))
    for a, b in zip(estimate, exact, strict=True):
        assert b.abs().max() > 0.01
        assert torch.allclose(a, b, atol=0.02)


def test_pass_learns_to_avoid_noise():
    # Two children tell the label, two a random one; a mark says which are which.
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(4, (400,), generator=rng)
    told = torch.stack([y, y, *torch.randint(4, (2, 400), generator=rng)], dim=1)
    x = torch.zeros(9, 7)
    x[torch.arange(8), torch.arange(8) % 4] = 3  # label
    x[:4, 4], x[4:8, 5], x[8, 6] = 3, 3, 3  # mark: signal, noise, root
    tokens = torch.cat([torch.full((400, 1), 8), told + torch.tensor([0, 0, 4, 4])], dim=1)
    split = 1 + 3 * (torch.arange(400) % 2)
    trees = TokenTrees(tokens, y, split, 9, 4, TreeShape.of([4]), x)
    scores = {}
    for name in ['GraphSAGE', 'PASS']:
        config = GNNConfig(epochs=60, batch_size=50, num_sampled=1)
        model = train_gnn(name, trees, config, seed=0)
        scores[name] = gnn_accuracy(model, trees, trees.rows('test'))
    h, real = model.sampler.project(x), torch.ones(400, 1, 4, dtype=torch.bool)
    q = model.sampler.probability(h, tokens[:, :1], tokens[:, None, 1:], real)
    assert q[:, 0, 2:].sum(dim=1).mean() < 0.25  # 0.5 before training
    assert scores['PASS'] > scores['GraphSAGE'] + 0.1


@pytest.mark.parametrize('name', ['GraphSAGE', 'FastGCN', 'AS-GCN', 'PASS'])
def test_draws_at_test_time_come_from_the_seed(name):
    _, trees = encoded()
    model = make_gnn(name, 8, 3, SHAPE, num_sampled=1)
    before = torch.get_rng_state()
    scores = [evaluate_gnn(model, trees, torch.arange(40), seed) for seed in [0, 0, *range(1, 9)]]
    assert torch.equal(torch.get_rng_state(), before)
    assert scores[0] == scores[1]
    assert len({score['accuracy'] for score in scores}) > 1
