"""Edge ends: as many as the degree, each asks for a child of its tree."""

import pytest
import torch

from torch_geometric_cgt.data import InNeighbors, TokenTrees, TreeShape, tokens_of
from torch_geometric_cgt.data.edge_ends import (
    _given_root,
    _given_subtree,
    child_label_probs,
    make_edge_ends,
    token_groups,
)
from torch_geometric_cgt.sampler import sample_trees

NUM_NODES = 3000


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_ends_ask_for_each_child_before_they_repeat_one():
    # Null is 4. The first root has the children 1 and, with one neighbour, 2.
    tokens = torch.tensor([[0, 1, 2, 0, 3, 0, 4], [3, 4, 4, 4, 4, 4, 4]])
    zeros = torch.zeros(2, dtype=torch.long)
    trees = TokenTrees(tokens, zeros, zeros, 4, 1, TreeShape.of([2, 2]))
    ends = make_edge_ends(trees, torch.eye(4), torch.tensor([5, 0]), rng())
    assert len(ends) == 5 and ends.owner.tolist() == [0] * 5
    wished = ends.wish['token']  # there is one label, so that the code is the token
    assert set(wished[:2].tolist()) == {1, 2} and set(wished[2:4].tolist()) == {1, 2}
    size = ends.wish['token, size'] - wished * 3
    assert torch.equal(size, torch.where(wished == 1, 2, 1))
    assert ends.own['token, size'].tolist() == [0 * 3 + 2] * 5
    assert ends.own['any'].unique().tolist() == ends.wish['any'].unique().tolist() == [0]


def test_codes_of_labels_and_tokens_differ():
    tokens = torch.tensor([[0, 1], [0, 1], [1, 0], [1, 0]])
    y = torch.tensor([0, 1, 0, 1])
    trees = TokenTrees(tokens, y, torch.zeros_like(y), 2, 2, TreeShape.of([1]))
    ends = make_edge_ends(trees, torch.eye(2), torch.ones(4, dtype=torch.long), rng())
    assert ends.own['token'].unique().numel() == 4
    assert ends.own['label'].tolist() == [0, 1, 0, 1]
    assert torch.equal(ends.wish['token'] // 2, tokens[:, 1])


def test_alike_tokens_are_in_one_group():
    centre = torch.tensor([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    codebook = centre.repeat_interleave(4, dim=0) + 0.1 * torch.rand(16, 2, generator=rng())
    group = token_groups(codebook, rng())
    assert group.unique().numel() == 4
    assert (group.view(4, 4) == group.view(4, 4)[:, :1]).all()
    assert token_groups(torch.ones(5, 3), rng()).tolist() == [0] * 5  # nothing to tell them by


def sampled(homophily: float, purity: float, fan_outs=(3, 3)):
    """Trees of a graph with two labels. A token has the label of its node with some probability."""
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(NUM_NODES) % 2
    u = torch.randint(NUM_NODES // 2, (2, 6000), generator=rng)
    other = (torch.rand(6000, generator=rng) > homophily).long()
    first = torch.randint(2, (6000,), generator=rng)
    edges = torch.stack([2 * u[0] + first, 2 * u[1] + (first + other) % 2])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    wrong = (torch.rand(NUM_NODES, generator=rng) > purity).long()
    cluster = 2 * torch.randint(5, (NUM_NODES,), generator=rng) + (y + wrong) % 2
    shape = TreeShape.of(fan_outs)
    graph = InNeighbors.from_edge_index(edges, NUM_NODES)
    tree = sample_trees(graph, torch.arange(NUM_NODES), shape, rng)
    tokens = tokens_of(tree, cluster, 10)
    trees = TokenTrees(tokens, y, torch.ones_like(y), 10, 2, shape)
    child = tree[:, 1 : 1 + fan_outs[0]]
    return trees, child >= 0, y[child.clamp(min=0)]


def same_label(probs, trees, real) -> float:
    own = probs.gather(2, trees.y[:, None, None].expand(-1, probs.size(1), 1))[..., 0]
    return float(own[real].mean())


@pytest.mark.parametrize('homophily', [0.2, 0.5, 0.9])
def test_the_mixture_finds_the_homophily(homophily):
    trees, real, label = sampled(homophily, purity=0.8)
    degree = real.sum(dim=1)
    table = _given_root(trees, degree)
    assert torch.allclose(table.sum(dim=2), torch.ones(()).double())
    child = trees.tokens[:, 1:4].clamp(max=9)
    true = float((label == trees.y[:, None])[real].double().mean())
    assert true == pytest.approx(homophily, abs=0.02)
    assert same_label(table[trees.y[:, None], child], trees, real) == pytest.approx(true, abs=0.05)


def test_the_probe_predicts_labels_of_children_and_is_the_lower_estimate():
    trees, real, label = sampled(0.9, purity=0.8)
    rng = torch.Generator().manual_seed(0)
    probs = _given_subtree(trees, rng)
    hits = (probs.argmax(dim=2) == label)[real].double().mean()
    assert hits > 0.85  # the token alone gives 0.8
    both = child_label_probs(trees, real.sum(dim=1), rng)
    assert torch.allclose(both.sum(dim=2)[real], torch.ones(()).double(), atol=1e-5)
    low, middle = same_label(probs, trees, real), same_label(both, trees, real)
    assert low < middle < 0.93


def test_one_layer_uses_the_token_alone():
    trees, real, label = sampled(0.9, purity=0.8, fan_outs=(3,))
    probs = _given_subtree(trees, torch.Generator().manual_seed(0))
    hits = (probs.argmax(dim=2) == label)[real].double().mean()
    assert hits == pytest.approx(0.8, abs=0.03)
