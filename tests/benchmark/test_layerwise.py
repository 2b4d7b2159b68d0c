import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.trees import random_index
from torch_geometric_cgt.benchmark import GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.draws import draw_positions
from torch_geometric_cgt.benchmark.gnn import families
from torch_geometric_cgt.benchmark.layerwise import adjacency, draw, variance
from torch_geometric_cgt.benchmark.training import TreeSet, train_gnn
from torch_geometric_cgt.data import TreeShape

NAMES = ['FastGCN', 'AS-GCN']
SHAPE = TreeShape.of([3, 2])


@given(
    st.lists(st.sampled_from([0.0, 1e-30, 0.3, 5.0]), min_size=1, max_size=9), st.integers(0, 99)
)
def test_impossible_positions_are_never_drawn(chance, seed):
    torch.manual_seed(seed)
    position = draw_positions(torch.tensor(chance), 50)
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
    index = random_index(SHAPE, 5, 20, seed)
    x = torch.randn(20, 4)
    model = make_gnn(name, 4, 3, SHAPE, num_sampled=num)
    rows, chances = model.candidates(x, index)
    chances = [chance.detach() for chance in chances]
    steps = model.plan(rows, chances)
    assert [len(step) for step in steps] == [2, 1]
    real = families(index < 20, SHAPE)
    for step in steps:
        for weight, mask in zip(step, real, strict=False):
            assert torch.isfinite(weight).all()
            assert not (weight != 0)[~mask].any()
    top = steps[-1][0] / rows[0].clamp(min=1e-9) * chances[0]  # counts, up to a factor
    assert float(top.sum()) == pytest.approx(float(chances[0].sum()), rel=1e-4)


def test_a_layer_without_real_parents_is_left_out():
    model = make_gnn('AS-GCN', 4, 3, SHAPE, num_sampled=2)
    index = torch.full((4, SHAPE.num_slots), 7)
    index[:, 0] = 0
    assert torch.isfinite(model.loss(torch.randn(7, 4), index, torch.zeros(4, dtype=torch.long)))


@pytest.mark.parametrize('name', NAMES)
@torch.no_grad()
def test_the_estimate_is_unbiased(name):
    # Without non-linearities, the expectation is the GCN of the same weights.
    torch.manual_seed(0)
    x, index = torch.randn(20, 4), random_index(SHAPE, 6, 20)
    model = make_gnn(name, 4, 3, SHAPE, num_sampled=2).eval()
    full = make_gnn('GCN', 4, 3, SHAPE).eval()
    full.load_state_dict(model.state_dict(), strict=False)
    model.act = full.act = False
    draws = model(x, index.repeat(3000, 1)).view(3000, 6, 3)  # all draw from one pool
    error = (draws.mean(dim=0) - full(x, index)) / (draws.std(dim=0) / 3000**0.5)
    assert error.abs().max() < 4
    assert draws.std(dim=0).max() > 0.1  # there was something to be unbiased about


@torch.no_grad()
def test_the_variance_is_the_variance():
    torch.manual_seed(0)
    index = random_index(TreeShape.of([3]), 5, 9).repeat(5000, 1)
    p = adjacency(index < 9, TreeShape.of([3]))[0]
    h, chance = (
        torch.randn(5, 4, 3).repeat(5000, 1, 1),
        p * (1 + torch.rand(5, 1, 4)).repeat(5000, 1, 1),
    )
    draws = ((p * draw(chance, 2))[:, 0, :, None] * h).sum(dim=1)
    expected = variance(h, p[:, 0], chance[:, 0], 2)
    assert torch.allclose(draws.view(5000, 5, 3).var(dim=0), expected[:5], rtol=0.15)


def test_the_sampler_gets_a_gradient_from_the_variance_alone():
    x, index = torch.randn(20, 4), random_index(SHAPE, 6, 20)
    y = torch.zeros(6, dtype=torch.long)
    model = make_gnn('AS-GCN', 4, 3, SHAPE, num_sampled=2)
    model.loss(x, index, y).backward()
    assert model.score.weight.grad.abs().max() > 0
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(x, index), y).backward()
    assert model.score.weight.grad is None


def test_asgcn_learns_to_avoid_children_that_tell_nothing():
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(2, (300,), generator=rng)
    index = torch.stack([torch.full_like(y, 3), y, y, *[torch.full_like(y, 2)] * 2], dim=1)
    x = 3 * torch.eye(4)  # two rows that tell the label, one that is noise, and the root
    trees = TreeSet(x, index, y, 1 + 3 * (torch.arange(300) % 2), 2, TreeShape.of([4]))
    config = GNNConfig(sampled_lr=0.01, epochs=40, batch_size=50, num_sampled=2)
    model = train_gnn('AS-GCN', trees, config, seed=0)
    _, (chance,) = model.candidates(x, index[:2])
    assert (chance[:, 0, 1:3].min() > 1.3 * chance[:, 0, 3:].max()).all()
