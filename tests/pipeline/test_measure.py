import torch

from torch_geometric_cgt.pipeline.measure import count_equal_rows


def test_equal_rows_are_counted_as_unique_counts_them():
    rows = torch.randint(3, (500, 4), generator=torch.Generator().manual_seed(0))
    expected = rows.unique(dim=0, return_counts=True)[1]
    assert count_equal_rows(rows).tolist() == expected.tolist()
    wide = rows * 2_000_000_000  # columns whose product leaves 64 bits
    assert count_equal_rows(wide).tolist() == expected.tolist()
