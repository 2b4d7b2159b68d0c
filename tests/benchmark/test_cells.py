"""Files of cells: what is read, and which cells are finished."""

import hashlib
import json
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from torch_geometric_cgt.benchmark import GNNConfig
from torch_geometric_cgt.benchmark.cells import (
    Cell,
    CellFile,
    CellIndex,
    add_cell,
    read_cells,
    settings_of,
)
from torch_geometric_cgt.benchmark.experiments import BenchmarkConfig, CellKey, computation_of

ONE = Cell(CellKey('aggregation', 'Cora', '0', 'GCN'), {'original': {'accuracy': 0.8}})
TWO = Cell(CellKey('aggregation', 'Cora', '2', 'GCN'), {'original': {'accuracy': 0.7}})
CONFIG = BenchmarkConfig(num_neighbors=(3, 3), epochs=2)
GCN, SGC = (CellKey('aggregation', 'Digits', '0', model) for model in ('GCN', 'SGC'))
LINK = CellKey('link', 'Digits', 'Dot', 'GCN')
STATISTICS = CellKey('statistics', 'Digits', '5', '')
FOREIGN = CellKey('weather', 'Digits', '0', 'GCN')
OLD = {'config': {'k': 30, 'num_neighbors': [3, 3], 'epochs': 2}}  # facts of before


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


def _add_content(path: Path, content: Any) -> None:
    text = content if isinstance(content, int) else json.dumps(content)
    digest = hashlib.sha256(str(text).encode()).hexdigest()
    with path.open('a') as file:
        file.write(json.dumps({'sha256': digest, 'cell': text}) + '\n')


@pytest.mark.parametrize(
    'content, message',
    [
        (1, 'no cell'),
        ([], 'no cell'),
        ({'scores': ONE.scores}, 'no key'),
        ({**asdict(ONE), 'key': {'experiment': 'aggregation'}}, 'missing'),
        ({**asdict(ONE), 'key': {**asdict(ONE.key), 'seed': '0'}}, 'names and a seed'),
        ({**asdict(ONE), 'facts': None}, 'facts'),
        ({**asdict(ONE), 'scores': {}}, 'no scores'),
        ({**asdict(ONE), 'scores': {'original': {}}}, 'no scores'),
        ({**asdict(ONE), 'scores': {'original': 0.8}}, 'numbers by name'),
        ({**asdict(ONE), 'scores': {'original': {'accuracy': '0.8'}}}, 'numbers by name'),
        ({**asdict(ONE), 'histograms': {'duplicates': [1]}}, 'lists by name'),
        ({**asdict(ONE), 'colour': 'red'}, 'colour'),
    ],
)
def test_what_has_another_shape_is_not_trusted(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / 'cells.jsonl'
    _add_content(path, content)
    add_cell(path, TWO)
    with pytest.warns(UserWarning, match=f'Line 1 .* damaged: .*{message}') as caught:
        assert list(read_cells([path])) == [TWO.key]
    assert len(caught) == 1


@pytest.mark.parametrize('spoil', [lambda line: line.replace('0.8', '0.9'), lambda line: line[:-9]])
def test_a_damaged_line_is_no_loss_where_its_cell_stands_again(tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / 'cells.jsonl'
    add_cell(path, ONE)
    path.write_text(spoil(path.read_text()))
    add_cell(path, ONE)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert read_cells([path]) == {ONE.key: ONE}
    content = path.read_text().splitlines(keepends=True)
    path.write_text(''.join(reversed(content)))  # now it is the newer one that is lost
    with pytest.warns(UserWarning, match='Line 2'):
        read_cells([path])


def test_only_what_was_added_is_read(tmp_path: Path) -> None:
    path = tmp_path / 'cells.jsonl'
    add_cell(path, ONE)
    file = CellFile(path)
    assert file.read() == [ONE]
    add_cell(path, TWO)
    whole = path.read_bytes()
    path.write_bytes(b'?' * (whole.index(b'\n') + 1) + whole[whole.index(b'\n') + 1 : -20])
    assert file.read() == []  # the rest of the second line is on its way
    assert [damage.line for damage in file.damage] == [2]
    path.write_bytes(whole)
    assert file.read() == [TWO]
    assert (file.cells, file.damage) == ({ONE.key: ONE, TWO.key: TWO}, [])
    assert file.read() == []


def test_a_last_line_without_an_end_counts(tmp_path: Path) -> None:
    path = tmp_path / 'cells.jsonl'
    add_cell(path, ONE)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_cells([path]) == {ONE.key: ONE}
    add_cell(path, replace(TWO, facts={'seconds': 1}))
    assert list(read_cells([path])) == [ONE.key, TWO.key]


def _index(path: Path, config: BenchmarkConfig = CONFIG) -> CellIndex:
    index = CellIndex(path, config)
    index.refresh()
    return index


def _file(path: Path, *cells: tuple[CellKey, dict[str, Any]]) -> Path:
    for key, facts in cells:
        add_cell(path, Cell(key, {'original': {'accuracy': 0.5}}, facts=facts))
    return path


def test_other_settings_are_another_benchmark(tmp_path: Path) -> None:
    path = _file(tmp_path / 'cells.jsonl', *((key, settings_of(key, CONFIG)) for key in (GCN, SGC)))
    assert list(_index(path).cells) == [GCN, SGC]
    index = _index(path, replace(CONFIG, k=31))
    assert index.cells == {}
    with pytest.warns(UserWarning, match=r'2 cells .* not run: 2 measured with other settings'):
        index.warn()


def test_a_protocol_is_known_by_its_number(tmp_path: Path) -> None:
    path = _file(
        tmp_path / 'cells.jsonl',
        (GCN, OLD),
        (SGC, {**OLD, 'protocol': 0}),
        (LINK, OLD),
        (replace(LINK, level='MLP'), settings_of(LINK, CONFIG)),
        (STATISTICS, OLD),
        (FOREIGN, OLD),
        (replace(GCN, level='some'), OLD),
    )
    index = _index(path)
    assert list(index.cells) == [GCN, replace(LINK, level='MLP'), STATISTICS]
    text = '4 cells .*: 2 measured by another protocol, 2 of tables that are not known'
    with pytest.warns(UserWarning, match=text):
        index.warn()


def test_training_is_one_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(
        tmp_path / 'cells.jsonl',
        (GCN, OLD),
        (SGC, settings_of(SGC, CONFIG)),
        (STATISTICS, settings_of(STATISTICS, CONFIG)),
    )
    assert list(_index(path).cells) == [GCN, SGC, STATISTICS]
    # Defaults of a data class are arguments of its constructor.
    slow = replace(GNNConfig(), lr=0.001)
    monkeypatch.setattr('torch_geometric_cgt.benchmark.cells.GNNConfig', lambda: slow)
    assert list(_index(path).cells) == [STATISTICS]  # where nothing is trained


def test_a_foreign_cell_is_not_the_work_of_a_table(tmp_path: Path) -> None:
    path = _file(tmp_path / 'cells.jsonl', (FOREIGN, OLD))
    assert _index(path).copy(GCN) is None
    assert _index(path).original(GCN) is None
    with pytest.raises(ValueError, match=r"'weather'.*'aggregation'"):
        computation_of(FOREIGN, CONFIG)
