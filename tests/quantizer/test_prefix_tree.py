import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.quantizer.prefix_tree import grow_prefix_tree

EXACT = 0.125  # noise of this width is zero but once in 10^13 draws


def test_tree_by_hand():
    """Two labels. The first splits at both bits where it can, the second not at all."""
    start = torch.tensor([0] * 8 + [1] * 3 + [-1])
    bits = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 1], [1, 0], [1, 1], [1, 1], [1, 1]])
    bits = torch.cat([bits, torch.tensor([[0, 0], [1, 0], [1, 1], [0, 0]])]).bool()
    leaves = grow_prefix_tree(start, 2, bits, 2, EXACT)
    # Label 1 stays whole (its halves are 1 and 2), as does prefix 1 of label 0 (halves 1 and 3).
    assert leaves.index.tolist() == [2, 2, 3, 3, 1, 1, 1, 1, 0, 0, 0, -1]
    assert leaves.count.tolist() == [3, 4, 2, 2]
    assert leaves.start.tolist() == [1, 0, 0, 0]


def test_without_bits_the_starts_are_leaves():
    start = torch.tensor([2, 0, 0])
    leaves = grow_prefix_tree(start, 3, torch.zeros(3, 0, dtype=torch.bool), 1, EXACT)
    assert leaves.index.tolist() == [2, 0, 0] and leaves.count.tolist() == [2, 0, 1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 5), st.integers(1, 4), st.integers(1, 20))
def test_leaves_are_a_partition(seed, depth, num_starts, leaf_min):
    rng = torch.Generator().manual_seed(seed)
    start = torch.randint(-1, num_starts, (100,), generator=rng)
    bits = torch.rand(100, depth, generator=rng) < 0.5
    for sigma in (EXACT, 4.0):
        leaves = grow_prefix_tree(start, num_starts, bits, leaf_min, sigma, rng)
        known = start >= 0
        assert torch.equal(leaves.index >= 0, known)
        assert torch.equal(leaves.start[leaves.index[known]], start[known])
        sizes = torch.bincount(leaves.index[known], minlength=leaves.count.numel())
        assert sizes.numel() == leaves.count.numel() <= num_starts << depth
        if sigma == EXACT:
            assert torch.equal(sizes, leaves.count)
            whole = torch.bincount(leaves.start, minlength=num_starts)[leaves.start] == 1
            assert bool((sizes[~whole] >= leaf_min).all())


def test_two_draws_of_the_noise_give_two_trees():
    start, bits = torch.zeros(200, dtype=torch.long), torch.rand(200, 6) < 0.5
    counts = [grow_prefix_tree(start, 1, bits, 10, 5.0).count.tolist() for _ in range(2)]
    assert counts[0] != counts[1]
