import pytest
import torch

from torch_geometric_cgt.quantizer.split import split_clusters, split_rows


@pytest.mark.parametrize(
    'n, m, k',
    [(1000, 100, 10), (1009, 100, 10), (1000, 33, 10), (70, 70, 1), (70, 1, 70), (4000, 40, 100)],
)
@pytest.mark.parametrize('equal', [False, True])
def test_split_rows(n, m, k, equal):
    x = torch.ones(n, 3) if equal else torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    labels = split_rows(x, m, k, torch.Generator().manual_seed(0), torch.device('cpu'))
    sizes = torch.bincount(labels)
    assert sizes.numel() == m and int(sizes.min()) >= k and int(sizes.sum()) == n


@pytest.mark.parametrize('equal', [False, True])
def test_split_clusters(equal):
    generator = torch.Generator().manual_seed(0)
    centers = torch.ones(200, 3) if equal else torch.randn(200, 3, generator=generator)
    sizes = torch.randint(30, 60, (200,), generator=generator)
    cells, num_cells = split_clusters(centers, sizes, 1000, 8, generator)
    rows = torch.zeros(num_cells, dtype=torch.long).index_add_(0, cells, sizes)
    assert int(rows.max()) <= 1000 and int(torch.bincount(cells).min()) >= 5
    other, _ = split_clusters(centers, sizes, 1000, 8, generator)
    assert not torch.equal(cells, other)  # New cells in each step.


def test_cells_keep_a_least_number_of_clusters():
    cells, num_cells = split_clusters(
        torch.randn(40, 2), torch.full((40,), 10**6), 10, 8, torch.Generator().manual_seed(0)
    )
    assert int(torch.bincount(cells).min()) >= 8 and num_cells > 1
