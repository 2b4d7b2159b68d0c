import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.privacy import Entry, Gaussian, Queries
from torch_geometric_cgt.quantizer.private_centers import (
    PREFIXES,
    grow_prefix_trees,
    shrink_means,
)

EXACT = 1e-4  # noise of this width changes no decision if thresholds are between integers


def counts(sigma, depth, generator=None):
    """Queries for one count per level."""
    noise = Gaussian(sigma)
    return Queries([Entry('clustering', PREFIXES, {'node': 1.0}, noise, 1 + depth)], generator)


def test_tree_by_hand():
    """Two labels. The first splits at both bits where it can, the second not at all."""
    tree = torch.tensor([0] * 8 + [1] * 3 + [-1])
    bits = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 1], [1, 0], [1, 1], [1, 1], [1, 1]])
    bits = torch.cat([bits, torch.tensor([[0, 0], [1, 0], [1, 1], [0, 0]])]).bool()
    leaves = grow_prefix_trees(tree, 2, bits, 1.5, counts(EXACT, 2))
    # Label 1 stays whole (its halves are 1 and 2), as does prefix 1 of label 0 (halves 1 and 3).
    assert leaves.index.tolist() == [2, 2, 3, 3, 1, 1, 1, 1, 0, 0, 0, -1]
    assert leaves.count.round().tolist() == [3, 4, 2, 2]
    assert leaves.tree.tolist() == [1, 0, 0, 0]


def test_without_bits_the_trees_are_leaves():
    tree = torch.tensor([2, 0, 0])
    leaves = grow_prefix_trees(tree, 3, torch.zeros(3, 0).bool(), 1, counts(EXACT, 0))
    assert leaves.index.tolist() == [2, 0, 0] and leaves.count.round().tolist() == [2, 0, 1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 5), st.integers(1, 4), st.integers(1, 20))
def test_leaves_are_a_partition(seed, depth, num_trees, leaf_min):
    rng = torch.Generator().manual_seed(seed)
    tree = torch.randint(-1, num_trees, (100,), generator=rng)
    bits = torch.rand(100, depth, generator=rng) < 0.5
    for sigma in (EXACT, 4.0):
        queries = counts(sigma, depth, rng)
        leaves = grow_prefix_trees(tree, num_trees, bits, leaf_min - 0.5, queries)
        assert len(queries.answers) <= 1 + depth
        known = tree >= 0
        assert torch.equal(leaves.index >= 0, known)
        assert torch.equal(leaves.tree[leaves.index[known]], tree[known])
        sizes = torch.bincount(leaves.index[known], minlength=leaves.count.numel())
        assert sizes.numel() == leaves.count.numel() <= num_trees << depth
        if sigma == EXACT:
            assert torch.equal(sizes, leaves.count.round().long())
            whole = torch.bincount(leaves.tree, minlength=num_trees)[leaves.tree] == 1
            assert bool((sizes[~whole] >= leaf_min).all())


def test_two_draws_of_the_noise_give_two_trees():
    tree, bits = torch.zeros(200, dtype=torch.long), torch.rand(200, 6) < 0.5
    found = [grow_prefix_trees(tree, 1, bits, 10, counts(5.0, 6)).count.tolist() for _ in range(2)]
    assert found[0] != found[1]


def test_without_noise_nothing_moves():
    means = torch.tensor([[0.5, -0.2, 0.0], [1.0, 0.0, 0.0]])
    assert torch.equal(shrink_means(means, torch.zeros(2)), means)
    assert torch.equal(shrink_means(means, torch.zeros(2), nonnegative=True), means.clamp(min=0))


def test_few_large_coordinates_are_kept_and_the_others_lose_their_noise():
    rng = torch.Generator().manual_seed(0)
    true = torch.zeros(5, 1000)
    true[:, :20] = 1.0
    noisy = true + 0.1 * torch.randn(5, 1000, generator=rng)
    shrunk = shrink_means(noisy, torch.full((5,), 0.1))
    assert float((shrunk - true).square().sum()) < 0.3 * float((noisy - true).square().sum())
    assert float(shrunk[:, :20].min()) > 0.3
    known = shrink_means(noisy, torch.full((5,), 0.1), nonnegative=True)
    assert float((known - true).square().sum()) < float((shrunk - true).square().sum())


def test_each_row_has_a_threshold_of_its_own():
    rng = torch.Generator().manual_seed(0)
    noise = torch.tensor([1e-3, 10.0])
    true = torch.randn(2, 500, generator=rng)
    noisy = true + noise[:, None] * torch.randn(2, 500, generator=rng)
    shrunk = shrink_means(noisy, noise)
    assert torch.allclose(shrunk[0], noisy[0], atol=5e-3)
    assert float(shrunk[1].abs().mean()) < 0.1 * float(noisy[1].abs().mean())
