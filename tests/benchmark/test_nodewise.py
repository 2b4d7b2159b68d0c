import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.trees import random_index
from torch_geometric_cgt.benchmark import GNNConfig, make_gnn
from torch_geometric_cgt.benchmark.training import TreeSet, test_gnn, train_gnn
from torch_geometric_cgt.data import TreeShape


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(['GraphSAGE', 'PASS']),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_what_is_drawn_is_a_part_of_the_tree(name, num_neighbors, num, seed):
    shape = TreeShape.of(num_neighbors)
    index = random_index(shape, 6, 50, seed)
    x = torch.randn(50, 4)
    model = make_gnn(name, 4, 3, shape, num_sampled=num)
    rows, weight = model.draw(x, index)
    assert rows.shape == weight.shape == (6, model.shape.num_slots)
    assert torch.equal(weight != 0, rows < 50)  # null slots have no weight, others one
    assert torch.equal(weight[weight != 0].float(), torch.ones(int((weight != 0).sum())))
    assert model.shape.check_nulls(rows < 50)
    # Root and children: what is drawn are children, as many as there are or as asked for.
    for full, drawn in zip(index, rows, strict=True):
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
    index = torch.tensor([[0, 1, 9, 2, 3]]).repeat(3000, 1)
    torch.manual_seed(0)
    rows, _ = model.draw(torch.randn(9, 2), index)
    count = rows[:, 1:].flatten().bincount(minlength=10)
    assert count[[0, 9]].sum() == 0
    assert (count[1:4] / 3000).tolist() == pytest.approx([2 / 3] * 3, abs=0.04)


def test_the_sampler_gets_the_gradient_of_the_expected_loss():
    torch.manual_seed(0)
    model = make_gnn('PASS', 4, 3, TreeShape.of([3]), num_sampled=2).eval()
    sampler, conv = model.sampler, model.convs[0]
    x, index = torch.randn(5, 4), torch.tensor([[0, 1, 5, 2]])
    direction = torch.randn(3)
    known = sampler.prepare(x)
    q = sampler.probability(known, index[:, :1], index[:, None, 1:], index[:, None, 1:] < 5)
    assert q.sum().item() == pytest.approx(1) and q[0, 0, 1] == 0
    messages = conv.project(x)[[1, 2], :3]
    expected = (q[0, 0, [0, 2], None] * messages).sum(dim=0) @ direction
    exact = torch.autograd.grad(expected, sampler.parameters())
    drawn = (model(x, index.repeat(20_000, 1)) @ direction).mean()
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
    index = torch.cat([torch.full((400, 1), 8), told + torch.tensor([0, 0, 4, 4])], dim=1)
    trees = TreeSet(x, index, y, 1 + 3 * (torch.arange(400) % 2), 4, TreeShape.of([4]))
    scores = {}
    for name in ['GraphSAGE', 'PASS']:
        config = GNNConfig(epochs=60, batch_size=50, num_sampled=1)
        model = train_gnn(name, trees, config, seed=0)
        scores[name] = test_gnn(model, trees, trees.rows('test'))
    known, real = model.sampler.prepare(x), torch.ones(400, 1, 4, dtype=torch.bool)
    q = model.sampler.probability(known, index[:, :1], index[:, None, 1:], real)
    assert q[:, 0, 2:].sum(dim=1).mean() < 0.25  # 0.5 before training
    assert scores['PASS'] > scores['GraphSAGE'] + 0.1
