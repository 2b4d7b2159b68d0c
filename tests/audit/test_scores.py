import pytest
import torch

from torch_geometric_cgt.audit.scores import sums_score


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
