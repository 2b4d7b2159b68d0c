import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.test_min_support import random_trees
from torch_geometric_cgt.audit.density import BackoffDensity
from torch_geometric_cgt.data import TreeShape


def test_density_by_hand():
    shape = TreeShape((1,))
    tokens = torch.tensor([[0, 1], [0, 2], [1, 2]])  # 2 is null
    density = BackoffDensity(tokens, torch.tensor([0, 0, 1]), 2, shape)
    # root 0: uniform 1/2, then 2 of 3, then 2 of 2 with label 0
    root = (2 + 2 * (2 + 2 / 2) / (3 + 2)) / (2 + 2)
    # child 1: uniform 1/3, 1 of 3 in its layer, 1 of 2 with the label, 1 of 2 below token 0
    child = (1 + 2 / 3) / (3 + 2)
    child = (1 + 2 * child) / (2 + 2)
    child = (1 + 2 * child) / (2 + 2)
    found = density.log_prob(torch.tensor([[0, 1]]), torch.tensor([0]))
    assert float(found) == pytest.approx(math.log(root * child))
    assert density.label_log_prob(2).exp().tolist() == pytest.approx([3 / 5, 2 / 5])


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([(2,), (2, 2), (1, 2, 1)]), st.integers(1, 3), st.integers(0, 2**31))
def test_a_tree_left_out_is_as_if_it_had_not_been_there(fan_outs, num_tokens, seed):
    shape, rng = TreeShape(fan_outs), torch.Generator().manual_seed(seed)
    tokens, y = random_trees(20, num_tokens, shape, rng)
    without = BackoffDensity(tokens[1:], y[1:], num_tokens, shape)
    density = BackoffDensity(tokens, y, num_tokens, shape)
    other = random_trees(1, num_tokens, shape, rng)[0]
    for tree in (tokens[:1], other):
        expected = without.log_prob(tree, y[:1])
        assert torch.allclose(density.log_prob(tree, y[:1], own=tokens[:1]), expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**31))
def test_probabilities_of_all_trees_add_up_to_one(num_tokens, seed):
    shape, rng = TreeShape((1, 1)), torch.Generator().manual_seed(seed)
    density = BackoffDensity(*random_trees(15, num_tokens, shape, rng), num_tokens, shape)
    every = torch.cartesian_prod(*[torch.arange(num_tokens + 1)] * 3)
    every = every[every[:, 0] < num_tokens]
    every = every[~((every[:, 1] == num_tokens) & (every[:, 2] < num_tokens))]
    for label in range(3):  # the last one was never seen
        log_prob = density.log_prob(every, torch.full((len(every),), label))
        assert float(log_prob.exp().sum()) == pytest.approx(1.0)
