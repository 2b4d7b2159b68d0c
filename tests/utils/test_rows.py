import torch

from torch_geometric_cgt.utils.rows import clip_rows, rank_among_equals


def test_ranks_by_hand():
    assert rank_among_equals(torch.tensor([5, 2, 5, 5, 2, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    assert rank_among_equals(torch.tensor([], dtype=torch.long)).tolist() == []


def test_clipped_rows():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(clip_rows(x, 1.0), expected)
    assert torch.allclose(clip_rows(x.to_sparse(), 1.0).to_dense(), expected)
