import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.attacked import trees
from tests.helpers.trees import random_trees
from torch_geometric_cgt.audit.attack_scores import BackoffDensity, sums_score
from torch_geometric_cgt.data import TreeShape


def test_density_by_hand():
    shape = TreeShape((1,))
    density = BackoffDensity(trees([[0, 1], [0, 2], [1, 2]], [0, 0, 1], 2, shape))  # 2 is null
    # root 0: uniform 1/2, then 2 of 3, then 2 of 2 with label 0
    root = (2 + 2 * (2 + 2 / 2) / (3 + 2)) / (2 + 2)
    # child 1: uniform 1/3, 1 of 3 in its layer, 1 of 2 with the label, 1 of 2 below token 0
    child = (1 + 2 / 3) / (3 + 2)
    child = (1 + 2 * child) / (2 + 2)
    child = (1 + 2 * child) / (2 + 2)
    found = density.log_prob(trees([[0, 1]], [0], 2, shape))
    assert float(found) == pytest.approx(math.log(root * child))
    assert density.label_log_prob(2).exp().tolist() == pytest.approx([3 / 5, 2 / 5])


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([(2,), (2, 2), (1, 2, 1)]), st.integers(1, 3), st.integers(0, 2**31))
def test_a_tree_left_out_is_as_if_it_had_not_been_there(fan_outs, num_tokens, seed):
    shape, rng = TreeShape(fan_outs), torch.Generator().manual_seed(seed)
    known = trees(*random_trees(20, num_tokens, shape, rng), num_tokens, shape)
    own, density = known.select(slice(1)), BackoffDensity(known)
    without = BackoffDensity(known.select(slice(1, None)))
    other = replace(own, tokens=random_trees(1, num_tokens, shape, rng)[0])
    for tree in (own, other):
        assert torch.allclose(density.log_prob(tree, own=own), without.log_prob(tree))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**31))
def test_probabilities_of_all_trees_add_up_to_one(num_tokens, seed):
    shape, rng = TreeShape((1, 1)), torch.Generator().manual_seed(seed)
    known = trees(*random_trees(15, num_tokens, shape, rng), num_tokens, shape)
    density = BackoffDensity(known)
    every = torch.cartesian_prod(*[torch.arange(num_tokens + 1)] * 3)
    every = every[every[:, 0] < num_tokens]
    every = every[~((every[:, 1] == num_tokens) & (every[:, 2] < num_tokens))]
    for label in range(3):  # the last one was never seen
        log_prob = density.log_prob(trees(every, [label] * len(every), num_tokens, shape))
        assert float(log_prob.exp().sum()) == pytest.approx(1.0)


@pytest.mark.parametrize('is_sparse', [False, True])
def test_what_is_known_is_taken_from_the_sums(is_sparse):
    """Rows 0 to 2 are known, in two sums of label 0 and one of label 1; of rows 3 and 4, which
    have label 0, the first one is in a sum."""
    x = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 4.0], [0.0, 5.0], [7.0, 0.0]])
    y = torch.tensor([0, 0, 1, 0, 0])
    sums = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.6, 0.8]])  # the second: rows 1 and 3
    seen = {
        'sums': sums,
        'sum_label': torch.tensor([0, 0, 1]),
        'sum_index': torch.tensor([0, 1, 2, 1, -1]),
    }
    x = x.to_sparse_coo() if is_sparse else x
    found = sums_score(seen, x, y, torch.tensor([3, 4]))
    assert torch.allclose(found, torch.tensor([1.0, 0.0], dtype=torch.double), atol=1e-6)
