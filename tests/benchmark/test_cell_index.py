from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torch_geometric_cgt.benchmark import GNNConfig
from torch_geometric_cgt.benchmark.cell_index import CellIndex, settings_of
from torch_geometric_cgt.benchmark.cells import Cell, CellKey, add_cell
from torch_geometric_cgt.benchmark.experiments import BenchmarkConfig, computation_of

CONFIG = BenchmarkConfig(num_neighbors=(3, 3), epochs=2)
GCN, SGC = (CellKey('aggregation', 'Digits', '0', model) for model in ('GCN', 'SGC'))
LINK = CellKey('link', 'Digits', 'Dot', 'GCN')
STATISTICS = CellKey('statistics', 'Digits', '5', '')
FOREIGN = CellKey('weather', 'Digits', '0', 'GCN')
OLD = {'config': {'k': 30, 'num_neighbors': [3, 3], 'epochs': 2}}  # facts of before


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
    monkeypatch.setattr('torch_geometric_cgt.benchmark.cell_index.GNNConfig', lambda: slow)
    assert list(_index(path).cells) == [STATISTICS]  # where nothing is trained


def test_a_foreign_cell_is_not_the_work_of_a_table(tmp_path: Path) -> None:
    path = _file(tmp_path / 'cells.jsonl', (FOREIGN, OLD))
    assert _index(path).copy(GCN) is None
    assert _index(path).original(GCN) is None
    with pytest.raises(ValueError, match=r"'weather'.*'aggregation'"):
        computation_of(FOREIGN, CONFIG)
