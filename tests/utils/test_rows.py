import torch

from torch_geometric_cgt.utils.rows import rank_among_equals


def test_ranks_by_hand():
    assert rank_among_equals(torch.tensor([5, 2, 5, 5, 2, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    assert rank_among_equals(torch.tensor([], dtype=torch.long)).tolist() == []
