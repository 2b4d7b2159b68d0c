"""Joined trees: small forests by hand, invariants of any forest, and triangles."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from torch_geometric.utils import degree, to_undirected

from tests.helpers.trees import random_tokens
from torch_geometric_cgt.data import (
    EdgeForm,
    EdgeValues,
    GraphProfile,
    InNeighbors,
    TokenTrees,
    TreeShape,
    join_trees,
    tokens_of,
)
from torch_geometric_cgt.data.graph_profile import mean_degrees_of_groups
from torch_geometric_cgt.data.tree_joining import (
    _draw_tail,
    mean_degrees,
    repeated_tokens,
    repeated_tokens_of_graph,
    sample_degrees,
)
from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.utils import checks

NUM_NODES, NUM_TOKENS = 2000, 40


def forest(rows, num_neighbors, num_tokens, y=None) -> TokenTrees:
    """Trees by hand, in which -1 is null."""
    tokens = torch.tensor(rows)
    tokens = tokens.masked_fill(tokens < 0, num_tokens)
    y = torch.zeros(len(rows)).long() if y is None else torch.tensor(y)
    shape = TreeShape.of(num_neighbors)
    return TokenTrees(tokens, y, torch.arange(len(rows)) % 3 + 1, num_tokens, 2, shape)


def edges_of(data) -> set:
    return {(int(a), int(b)) for a, b in data.edge_index.t() if a < b}


def codebook(num_tokens: int) -> torch.Tensor:
    return torch.eye(num_tokens)


def test_roots_that_ask_for_each_other_are_joined():
    # Trees 0 and 2 ask for each other, and so do trees 1 and 3.
    trees = forest(
        [
            [0, 1, -1, 0, -1, -1, -1],
            [2, 3, -1, 2, -1, -1, -1],
            [1, 0, -1, 1, -1, -1, -1],
            [3, 2, -1, 3, -1, -1, -1],
        ],
        [2, 2],
        4,
        y=[0, 1, 0, 1],
    )
    data = join_trees(trees, codebook(4))
    assert edges_of(data) == {(0, 2), (1, 3)}
    assert data.token.tolist() == [0, 2, 1, 3] and data.y.tolist() == [0, 1, 0, 1]
    assert torch.equal(data.x, codebook(4)[data.token])
    assert data.train_mask.tolist() == [True, False, True, True]
    assert data.val_mask.tolist() == [False, True, True, False]


def with_values(trees: TokenTrees, values, table) -> TokenTrees:
    """Trees whose edges have the given edge token by slot, in which -1 is null."""
    token = torch.tensor(values)
    token = token.masked_fill(token < 0, len(table))
    table = EdgeValues(torch.tensor(table, dtype=torch.float64), EdgeForm('float32', 'int64'))
    return replace(trees, edge_tokens=token, edge_values=table)


def test_an_edge_has_the_value_of_the_tree_edge_that_asked_for_it():
    # Tree 0 asks for tree 1 (token 1) by its second child, and for tree 2 by its first one.
    tokens = [[0, 2, 1, 0, -1, 0, -1], [1, 0, -1, 2, 1, -1, -1], [2, 0, -1, 2, 1, -1, -1]]
    values = [[-1, 0, 1, 3, -1, 3, -1], [-1, 1, -1, 3, 3, -1, -1], [-1, 2, -1, 3, 3, -1, -1]]
    table = [[0.5, 10], [1.5, 11], [2.5, 12], [9.5, 19]]  # the last one is of grandchildren
    trees = forest(tokens, [2, 2], 3)
    found = set()
    for seed in range(20):
        data = join_trees(with_values(trees, values, table), codebook(3), seed)
        assert torch.equal(data.edge_index, join_trees(trees, codebook(3), seed).edge_index)
        ends = [tuple(edge) for edge in data.edge_index.t().tolist()]
        weight = dict(zip(ends, data.edge_weight.tolist(), strict=True))
        assert data.edge_attr.tolist() == [int(9.5 + w) for w in data.edge_weight.tolist()]
        assert all(weight[a, b] == weight[b, a] for a, b in weight)  # one value per edge
        assert weight[0, 1] == 1.5 and weight[0, 2] in (0.5, 2.5)
        found.add(weight[0, 2])
    assert found == {0.5, 2.5}  # each of the two roots has asked
    assert data.is_edge_attr('edge_weight') and 'edge_weight' not in join_trees(trees, codebook(3))


def test_of_several_candidates_the_one_with_the_asked_number_of_neighbours_is_taken():
    # Tree 0 asks for a root of token 1 with one neighbour, tree 1 for one with two.
    trees = forest(
        [
            [0, 1, -1, -1, 0, -1, -1, -1, -1, -1],
            [0, 1, -1, -1, 0, 0, -1, -1, -1, -1],
            [1, 0, -1, -1, 1, -1, -1, -1, -1, -1],
            [1, 0, 0, -1, 1, -1, 1, -1, -1, -1],
            [0, 1, -1, -1, 0, 0, -1, -1, -1, -1],
        ],
        [3, 2],
        2,
    )
    assert edges_of(join_trees(trees, codebook(2))) == {(0, 2), (1, 3), (3, 4)}


def test_nobody_is_joined_with_itself_or_twice():
    lonely = forest([[0, 0, 0], [1, -1, -1]], [2], 2)  # asks for itself; asks for nobody
    assert join_trees(lonely, codebook(2)).num_edges == 0
    twice = forest([[0, 1, 1], [1, 0, 0]], [2], 2)
    assert edges_of(join_trees(twice, codebook(2))) == {(0, 1)}


@settings(max_examples=25, deadline=None)
@given(
    fan_outs=st.sampled_from([[1], [3], [2, 2], [3, 1], [1, 3], [2, 3, 2]]),
    num_trees=st.integers(1, 40),
    num_tokens=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_any_forest_gives_a_simple_undirected_graph(fan_outs, num_trees, num_tokens, seed):
    shape = TreeShape.of(fan_outs)
    tokens = random_tokens(shape, num_trees, num_tokens, seed)
    y = torch.arange(num_trees) % 3
    trees = TokenTrees(tokens, y, torch.ones(num_trees).long(), num_tokens, 3, shape)
    before = tokens.clone()
    data = join_trees(trees, torch.randn(num_tokens, 4), seed)
    data.validate()
    assert torch.equal(trees.tokens, before)
    assert data.num_nodes == num_trees and torch.equal(data.y, y)
    assert not data.has_self_loops() and data.is_undirected()
    assert torch.equal(data.edge_index, data.edge_index.unique(dim=1))
    children = (tokens[:, shape.layer_slice(1)] != num_tokens).sum(dim=1)
    few = children < fan_outs[0]
    found = degree(data.edge_index[0], num_trees)
    assert (found[few] <= children[few]).all()  # only a full fan-out leaves the degree open


def planted(clique: int, num_nodes: int = 600) -> tuple[torch.Tensor, TokenTrees]:
    """A graph of cliques or, for cliques of two, of one large cycle. Labels are blocks of nodes."""
    node = torch.arange(num_nodes)
    if clique == 2:
        edges = torch.stack([node, (node + 1) % num_nodes])
    else:
        pairs = torch.combinations(torch.arange(clique)).t()
        start = torch.arange(0, num_nodes, clique).repeat_interleave(pairs.size(1))
        edges = pairs.repeat(1, num_nodes // clique) + start
        edges = torch.cat([edges, torch.stack([node, (node + clique) % num_nodes])], dim=1)
    edges = to_undirected(edges)
    shape, cluster, y = TreeShape.of([4, 4]), node // 30, node // 300
    graph = InNeighbors.from_edge_index(edges, num_nodes)
    tree = sample_trees(graph, node, shape, torch.Generator().manual_seed(0))
    split = torch.ones(num_nodes).long()
    return edges, TokenTrees(tokens_of(tree, cluster, 20), y, split, 20, 2, shape)


def test_repeated_tokens_of_a_graph_are_those_of_its_trees():
    edges, trees = planted(4)
    expected = repeated_tokens(trees)
    found = repeated_tokens_of_graph(edges, trees.tokens[:, 0], torch.Generator().manual_seed(0))
    assert expected > 0.3 and found == pytest.approx(expected, abs=0.03)


def test_repeated_tokens_by_hand():
    # Child 1 has the grandchildren 0 and 2, child 2 has 0 and 0: one of four has a sibling's token.
    assert repeated_tokens(forest([[0, 1, 2, 0, 2, 0, 0]], [2, 2], 3)) == 0.25
    assert repeated_tokens(forest([[0, 1, -1, 1, 1, -1, -1]], [2, 2], 3)) == 0


def test_labels_and_degrees_of_a_planted_graph_come_back():
    edges, trees = planted(4)
    data = join_trees(trees, codebook(20))
    same = (data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).double().mean()
    assert same > 0.95
    assert data.num_edges == pytest.approx(edges.size(1), rel=0.15)


def test_the_seed_decides():
    _, trees = planted(4)
    first, again, other = (join_trees(trees, codebook(20), seed) for seed in (1, 1, 2))
    assert torch.equal(first.edge_index, again.edge_index)
    assert not torch.equal(first.edge_index, other.edge_index)


def test_a_graph_that_does_not_fit_into_memory_is_refused(monkeypatch):
    _, trees = planted(4)
    monkeypatch.setattr(checks, 'available_memory', lambda device: 1000)
    with pytest.raises(NotEnoughMemoryError, match=r"600 nodes with 20 features.*'num_samples'"):
        join_trees(trees, codebook(20))


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


def test_a_profile_decides_on_degrees_and_trees_on_their_order():
    weight = (1 + torch.arange(NUM_NODES)).double().pow(-0.5)
    true, trees = sampled(weight, 9000)
    profile = GraphProfile(mean_degrees_of_groups(true.long(), 30))
    found = sample_degrees(trees, torch.Generator().manual_seed(0), profile)
    assert wasserstein_distance(true, found) < wasserstein_distance(true, draw(trees)) / 2
    shown = torch.stack([true, found.double()]).clamp(max=5)
    assert torch.corrcoef(shown)[0, 1] > 0.9
    alone = trees.tokens[:, trees.shape.layer_slice(1)].eq(NUM_TOKENS).all(dim=1)
    assert torch.equal(found == 0, alone)


@pytest.mark.parametrize('share', [0.3, 0.6])
def test_a_profile_decides_on_homophily(share):
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(2, (NUM_NODES,), generator=rng)
    ends = torch.randint(NUM_NODES, (2, 20 * NUM_NODES), generator=rng)
    kept = torch.rand(ends.size(1), generator=rng) < torch.where(y[ends[0]] == y[ends[1]], 0.2, 0.1)
    edges = to_undirected(ends[:, kept])
    graph = InNeighbors.from_edge_index(edges, NUM_NODES)
    shape = TreeShape.of((5, 5))
    tokens = torch.where(torch.rand(NUM_NODES, generator=rng) < 0.8, y, 1 - y)
    tree = sample_trees(graph, torch.arange(NUM_NODES), shape, rng)
    trees = TokenTrees(tokens_of(tree, tokens, 2), y, torch.ones_like(y), 2, 2, shape)
    profile = GraphProfile(torch.full((20,), 6.0, dtype=torch.float64))

    def reached(aim):
        edges = join_trees(trees, codebook(2), 0, replace(profile, homophily=aim)).edge_index
        return float((y[edges[0]] == y[edges[1]]).double().mean())

    least, most = reached(0.0), reached(1.0)
    aim = least + share * (most - least)
    assert most - least > 0.05 and reached(aim) == pytest.approx(aim, abs=0.02)
