import math

import torch

from torch_geometric_cgt.utils.rows import clip_rows, rank_among_equals, row_norms


def test_ranks_by_hand():
    assert rank_among_equals(torch.tensor([5, 2, 5, 5, 2, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    assert rank_among_equals(torch.tensor([], dtype=torch.long)).tolist() == []


def test_clipped_rows():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(clip_rows(x, 1.0), expected)
    assert torch.allclose(clip_rows(x.to_sparse(), 1.0).to_dense(), expected)


def test_norms_of_dense_and_sparse_counts_are_the_nearest_numbers():
    """Noisy medians count norms below the root of eight: equal rows must be on one side of it."""
    counts = 3 * torch.ones(300, 300).tril()
    expected = [math.sqrt(9 * number) for number in range(1, 301)]
    for rows in (counts, counts.to_sparse(), counts.to_sparse_csr(), counts.double().to_sparse()):
        assert row_norms(rows).tolist() == expected
