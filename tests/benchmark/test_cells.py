from pathlib import Path

import pytest

from torch_geometric_cgt.benchmark.cells import Cell, CellKey, add_cell, read_cells
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, find_experiment

ONE = Cell(CellKey('aggregation', 'Cora', '0', 'GCN'), {'original': {'accuracy': 0.8}})
TWO = Cell(CellKey('aggregation', 'Cora', '2', 'GCN'), {'original': {'accuracy': 0.7}})


def test_cells_come_back_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / 'new' / 'cells.jsonl'
    for cell in (ONE, TWO, Cell(ONE.key, {'original': {'accuracy': 0.9}})):
        add_cell(path, cell)
    cells = read_cells([path])
    assert len(cells) == 2
    assert cells[ONE.key].scores['original']['accuracy'] == 0.9
    assert cells[TWO.key] == TWO


def test_changed_score_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / 'cells.jsonl'
    add_cell(path, ONE)
    add_cell(path, TWO)
    path.write_text(path.read_text().replace('0.8', '0.9'))
    with pytest.warns(UserWarning, match=r'Line 1 .* checksum'):
        assert list(read_cells([path])) == [TWO.key]


@pytest.mark.parametrize('length', [1, 40, -1])
def test_torn_line_costs_that_line_alone(tmp_path: Path, length: int) -> None:
    path = tmp_path / 'cells.jsonl'
    add_cell(path, ONE)
    path.write_bytes(path.read_bytes()[:length] if length > 0 else path.read_bytes()[:-5])
    add_cell(path, TWO)
    with pytest.warns(UserWarning, match='Line 1 .* damaged'):
        assert list(read_cells([path])) == [TWO.key]


def test_experiments_are_found_by_name_and_number() -> None:
    assert find_experiment('1') is find_experiment('aggregation') is EXPERIMENTS['aggregation']
    with pytest.raises(ValueError, match=r"'7'.*'1'.*'aggregation'"):
        find_experiment('7')


def test_keys_of_an_experiment() -> None:
    keys = EXPERIMENTS['aggregation'].keys(('Cora',), seeds=2)
    assert len(keys) == len(set(keys)) == 3 * 4 * 2
    assert {k.level for k in keys} == {'0', '2', '4'}
