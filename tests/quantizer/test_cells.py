import pytest
import torch

from torch_geometric_cgt.quantizer.cells import refine_cells, split_into_cells
from torch_geometric_cgt.quantizer.kmeans_steps import centers_and_sizes, inertia_of


@pytest.mark.parametrize('equal', [False, True])
def test_split_into_cells(equal):
    generator = torch.Generator().manual_seed(0)
    centers = torch.ones(200, 3) if equal else torch.randn(200, 3, generator=generator)
    sizes = torch.randint(30, 60, (200,), generator=generator)
    cells, num_cells = split_into_cells(centers, sizes, 1000, 8, generator)
    rows = torch.zeros(num_cells, dtype=torch.long).index_add_(0, cells, sizes)
    assert int(rows.max()) <= 1000 and int(torch.bincount(cells).min()) >= 5
    other, _ = split_into_cells(centers, sizes, 1000, 8, generator)
    assert not torch.equal(cells, other)  # New cells in each step.


def test_cells_keep_a_least_number_of_clusters():
    cells, num_cells = split_into_cells(
        torch.randn(40, 2), torch.full((40,), 10**6), 10, 8, torch.Generator().manual_seed(0)
    )
    assert int(torch.bincount(cells).min()) >= 8 and num_cells > 1


def test_rows_move_within_their_cell_only():
    # Two cells of two clusters each. In each cell, the clusters are mixed up.
    x = torch.tensor([0.0, 1.0, 0.1, 1.1, 8.0, 9.0, 8.1, 9.1]).view(-1, 1)
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    cells = torch.tensor([0, 0, 1, 1])
    found = refine_cells(x, labels, cells, 3, 2, 5, 100, torch.device('cpu'))  # one cell is empty
    assert torch.equal(cells[found], cells[labels])
    assert torch.bincount(found).tolist() == [2, 2, 2, 2]
    assert found[0] == found[2] and found[1] == found[3] and found[4] == found[6]
    assert inertia_of(x, found, centers_and_sizes(x, found, 4)[0]) == pytest.approx(0.02, abs=1e-5)
