"""The public grid of edge values: cells, values outside of the bounds, and wrong bounds."""

import pytest
import torch

from torch_geometric_cgt.data import EdgeForm, EdgeValues
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.transforms.edge_grid import EdgeGrid, check_bounds

FORM = EdgeForm('float32', 'int64', 2)


def test_cells_by_hand():
    bounds = check_bounds({'edge_attr': [(0, 1), (0, 3)], 'edge_weight': (0.0, 1.0)})
    grid = EdgeGrid(bounds, 2)
    grid.check(FORM)
    table = grid.values(FORM).table
    assert grid.num_cells == 8 and table.shape == (8, 3)
    assert table[5].tolist() == [0.75, 0.0, 2.0]  # whole numbers in columns of integers
    given = EdgeValues(torch.tensor([[0.9, 0.0, 3.0], [-7.0, 99.0, 1.4]]).double(), FORM)
    assert grid.tokens(given).tolist() == [5, 2]


def test_every_value_is_in_the_cell_that_it_comes_from():
    grid = EdgeGrid(check_bounds({'edge_attr': (0, 4)}), 5)
    values = grid.values(EdgeForm(None, 'int64'))
    assert values.table.view(-1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert grid.tokens(values).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    'bounds',
    [
        None,
        {},
        {'weight': (0, 1)},
        {'edge_weight': (1, 0)},
        {'edge_weight': (0, float('inf'))},
        {'edge_weight': 'all'},
        {'edge_attr': [(0, 1), 5]},
        {'edge_weight': [(0, 1), (0, 1)]},
        {'edge_attr': (True, 2)},
    ],
)
def test_wrong_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match=r"'edge_bounds'|bounds of|pair of bounds"):
        check_bounds(bounds)


def test_too_many_cells_and_bounds_of_other_columns():
    with pytest.raises(ValueError, match=r"'edge_bins' = 8 for 3 columns gives more than 256"):
        EdgeGrid(check_bounds({'edge_attr': [(0, 1)] * 3}), 8)
    for bins in (0, 2.5):
        with pytest.raises(ValueError, match="'edge_bins' must be"):
            EdgeGrid(check_bounds({'edge_attr': (0, 1)}), bins)
    grid = EdgeGrid(check_bounds({'edge_attr': [(0, 1)] * 3}), 2)
    with pytest.raises(SourceError, match=r"\{'edge_weight': 1, 'edge_attr': 2\}.*'edge_attr': 3"):
        grid.check(FORM)
