"""Degrees that are estimated from trees: exact below the fan-out, right on average beyond it."""

import pytest
import torch
from torch_geometric.utils import degree, to_undirected

from torch_geometric_cgt.data import InNeighbors, TokenTrees, TreeShape, tokens_of
from torch_geometric_cgt.data.joined_degrees import _draw_tail, mean_degrees, sample_degrees
from torch_geometric_cgt.sampler import sample_trees

NUM_NODES, NUM_TOKENS = 2000, 40


def sampled(weight: torch.Tensor, num_edges: int, fan_outs=(5, 5)):
    """The degrees of a random graph whose nodes have some weight, and its trees."""
    rng = torch.Generator().manual_seed(0)
    ends = torch.multinomial(weight, 2 * num_edges, replacement=True, generator=rng)
    edges = to_undirected(ends.view(2, -1)[:, ends[:num_edges] != ends[num_edges:]])
    graph = InNeighbors.from_edge_index(edges, NUM_NODES)
    shape, cluster = TreeShape.of(fan_outs), torch.arange(NUM_NODES) % NUM_TOKENS
    tree = sample_trees(graph, torch.arange(NUM_NODES), shape, rng)
    zeros = torch.zeros(NUM_NODES, dtype=torch.long)
    tokens = tokens_of(tree, cluster, NUM_TOKENS)
    trees = TokenTrees(tokens, zeros, zeros + 1, NUM_TOKENS, 2, shape)
    return degree(edges[0], NUM_NODES), trees


def draw(trees):
    return sample_degrees(trees, torch.Generator().manual_seed(0))


def test_degrees_below_the_fan_out_are_exact():
    true, trees = sampled(torch.ones(NUM_NODES), 4000)
    found = draw(trees)
    low = true < 5
    assert 0.5 < low.double().mean() < 0.95
    assert torch.equal(found[low], true[low].long()) and (found[~low] >= 5).all()


@pytest.mark.parametrize('mean', [8, 16])
def test_the_mean_beyond_the_fan_out_is_found(mean):
    true, trees = sampled(torch.ones(NUM_NODES), NUM_NODES * mean // 2)
    found = draw(trees).double()
    assert found.mean() == pytest.approx(float(true.mean()), rel=0.12)


def test_popular_tokens_have_high_degrees():
    weight = 1 + 5.0 * (torch.arange(NUM_NODES) % NUM_TOKENS < 10)
    true, trees = sampled(weight, 8000)
    means = mean_degrees(trees)
    expected = [float(true[torch.arange(NUM_NODES) % NUM_TOKENS < 10].mean()), 0]
    full = (true >= 5) & (torch.arange(NUM_NODES) % NUM_TOKENS >= 10)
    expected[1] = float(true[full].mean())
    assert expected[0] > 2.5 * expected[1]
    assert means[:10].mean() == pytest.approx(expected[0], rel=0.2)
    assert means[10:].mean() < 0.6 * means[:10].mean()


@pytest.mark.parametrize('fan_outs', [(5, 3), (3, 5), (4, 4, 2)])
def test_fan_outs_may_differ(fan_outs):
    true, trees = sampled(torch.ones(NUM_NODES), 10_000, fan_outs)
    found = draw(trees).double()
    assert found.mean() == pytest.approx(float(true.mean()), rel=0.15)


def test_one_layer_does_not_tell_degrees_beyond_the_fan_out():
    true, trees = sampled(torch.ones(NUM_NODES), 10_000, (5,))
    assert torch.equal(draw(trees), true.long().clamp(max=5))


def test_the_tail_has_the_mean_that_is_asked_for():
    uniform = (torch.arange(200_000) + 0.5) / 200_000
    for mean in (6.0, 9.0, 30.0):
        drawn = _draw_tail(torch.full((200_000,), mean), uniform.double(), 5, 10_000)
        assert int(drawn.min()) == 5
        assert float(drawn.double().mean()) == pytest.approx(mean, rel=0.03)
    assert _draw_tail(torch.full((3,), 50.0), uniform[:3].double(), 5, 5).tolist() == [5, 5, 5]
