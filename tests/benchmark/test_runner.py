import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_geometric_cgt.benchmark import runner
from torch_geometric_cgt.benchmark.cells import Cell, CellKey, add_cell, read_cells
from torch_geometric_cgt.benchmark.exchange import foreign_set
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.benchmark.graphs import BenchmarkConfig, GraphSpec, graph_of
from torch_geometric_cgt.benchmark.known import KnownCells, settings_of, work_of
from torch_geometric_cgt.benchmark.runner import run_cells
from torch_geometric_cgt.benchmark.training import TreeSet
from torch_geometric_cgt.benchmark.variants import find_variant, shuffle_children, shuffle_labels
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import SourceError

CONFIG = BenchmarkConfig(num_neighbors=(3, 3), epochs=2)
GCN, SGC = (CellKey('aggregation', 'Digits', '0', model) for model in ('GCN', 'SGC'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('benchmark')


@pytest.fixture(scope='module')
def cells(folder: Path) -> dict[CellKey, Cell]:
    return run_cells([GCN, SGC], folder / 'cells.jsonl', CONFIG, folder, log=False)


def test_all_graphs_are_scored(cells: dict[CellKey, Cell]) -> None:
    assert list(cells) == [GCN, SGC]
    for cell in cells.values():
        assert list(cell.scores) == ['original', 'quantized', 'generated']
        assert cell.scores['original']['accuracy'] > 0.9
        assert cell.scores['original']['macro_f1'] > 0.9
        assert cell.facts['config']['k'] == 30
        assert cell.facts['build_seconds'] > 0


def test_finished_cells_are_not_run_again(folder: Path, cells: dict[CellKey, Cell]) -> None:
    before = (folder / 'cells.jsonl').read_bytes()
    assert run_cells([GCN, SGC], folder / 'cells.jsonl', CONFIG, folder, log=False) == cells
    assert (folder / 'cells.jsonl').read_bytes() == before


def test_damaged_cell_is_run_again(
    folder: Path, cells: dict[CellKey, Cell], tmp_path: Path
) -> None:
    path = tmp_path / 'cells.jsonl'
    lines = (folder / 'cells.jsonl').read_text().splitlines(keepends=True)
    path.write_text(lines[0].replace('accuracy', 'accurate') + lines[1])
    with pytest.warns(UserWarning, match='damaged'):
        again = run_cells([GCN, SGC], path, CONFIG, folder, log=False)
    assert again[GCN].scores == cells[GCN].scores
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # the damaged line was replaced
        assert read_cells([path])[GCN].scores == cells[GCN].scores


def test_processes_find_what_one_finds(
    folder: Path, cells: dict[CellKey, Cell], tmp_path: Path
) -> None:
    other = replace(SGC, level='2')
    path = tmp_path / 'cells.jsonl'
    found = run_cells([GCN, SGC, other], path, CONFIG, folder, jobs=2, log=False)
    assert {key: found[key].scores for key in (GCN, SGC)} == {
        key: cell.scores for key, cell in cells.items()
    }
    assert found[other].scores != found[SGC].scores


def _known(path: Path, config: BenchmarkConfig = CONFIG) -> KnownCells:
    known = KnownCells(path, config)
    known.refresh()
    return known


def test_other_settings_are_another_benchmark(folder: Path, cells: dict[CellKey, Cell]) -> None:
    known = _known(folder / 'cells.jsonl', replace(CONFIG, k=31))
    assert known.cells == {}
    with pytest.warns(UserWarning, match=r'2 cells .* not run: 2 measured with other settings'):
        known.warn()


LINK = CellKey('link', 'Digits', 'Dot', 'GCN')
STATISTICS = CellKey('statistics', 'Digits', '5', '')
FOREIGN = CellKey('weather', 'Digits', '0', 'GCN')
OLD = {'config': {'k': 30, 'num_neighbors': [3, 3], 'epochs': 2}}  # facts of before


def _file(path: Path, *cells: tuple[CellKey, dict[str, Any]]) -> Path:
    for key, facts in cells:
        add_cell(path, Cell(key, {'original': {'accuracy': 0.5}}, facts=facts))
    return path


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
    known = _known(path)
    assert list(known.cells) == [GCN, replace(LINK, level='MLP'), STATISTICS]
    text = '4 cells .*: 2 measured by another protocol, 2 of tables that are not known'
    with pytest.warns(UserWarning, match=text):
        known.warn()


def test_training_is_one_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(
        tmp_path / 'cells.jsonl',
        (GCN, OLD),
        (SGC, settings_of(SGC, CONFIG)),
        (STATISTICS, settings_of(STATISTICS, CONFIG)),
    )
    assert list(_known(path).cells) == [GCN, SGC, STATISTICS]
    # Defaults of a data class are arguments of its constructor.
    slow = replace(runner.GNNConfig(), lr=0.001)
    monkeypatch.setattr('torch_geometric_cgt.benchmark.known.GNNConfig', lambda: slow)
    assert list(_known(path).cells) == [STATISTICS]  # where nothing is trained


def test_a_foreign_cell_is_not_the_work_of_a_table(tmp_path: Path) -> None:
    path = _file(tmp_path / 'cells.jsonl', (FOREIGN, OLD))
    assert _known(path).copy(GCN) is None
    assert _known(path).original(GCN) is None
    with pytest.raises(ValueError, match=r"'weather'.*'aggregation'"):
        work_of(FOREIGN, CONFIG)


def test_equal_work_is_looked_up_with_its_facts(
    folder: Path, cells: dict[CellKey, Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, 'train_gnn', None)  # nothing may be trained
    monkeypatch.setattr(runner, 'make_graphs', None)  # nor built
    monkeypatch.setattr(runner, 'load_source', None)  # nor loaded
    monkeypatch.setattr(sys, 'argv', ['cgt', 'another'])
    same, again = CellKey('ablation', 'Digits', '0', 'GCN'), replace(GCN, variant='k=30')
    found = run_cells([same, again], folder / 'cells.jsonl', CONFIG, folder, log=False)
    for key in (same, again):
        assert found[key].scores == cells[GCN].scores
        assert found[key].facts == {**cells[GCN].facts, 'copied_from': 'aggregation'}


def test_equal_work_of_one_run_is_done_once(folder: Path, tmp_path: Path) -> None:
    keys = [replace(SGC, variant='edge deletion 100 %'), SGC, replace(SGC, experiment='ablation')]
    found = run_cells([*keys, SGC], tmp_path / 'cells.jsonl', CONFIG, folder, log=False)
    assert list(found) == keys
    assert [found[key].facts.get('copied_from') for key in keys] == [None, None, 'aggregation']
    source = 'aggregation/edge deletion 100 %'
    assert [found[key].facts.get('original_from') for key in keys] == [None, source, source]
    assert len((tmp_path / 'cells.jsonl').read_text().splitlines()) == 3


def test_commands_can_be_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ['cgt', 'benchmark', '--variants', 'no label,k=100', '--cells', 'my cells.jsonl']
    monkeypatch.setattr(sys, 'argv', command)
    assert shlex.split(runner._provenance()['command']) == command


def test_missing_files_are_found_before_the_first_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('CGT_DATA_ROOT', str(tmp_path / 'nothing'))
    monkeypatch.setattr(runner, 'make_graphs', None)
    exchange = replace(GCN, experiment='exchange', level='CiteSeer / original')
    for key, name in [(replace(GCN, dataset='Cora'), 'Cora'), (exchange, 'CiteSeer')]:
        with pytest.raises(SourceError, match=name):
            run_cells([GCN, key], tmp_path / 'cells.jsonl', CONFIG, tmp_path, log=False)
    assert not (tmp_path / 'cells.jsonl').exists()


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'k' must be at least 1"):
        BenchmarkConfig(k=0)
    with pytest.raises(OSError, match='is a folder'):
        run_cells([GCN], tmp_path, CONFIG)


def test_an_interrupt_ends_all_processes_and_keeps_cells(tmp_path: Path) -> None:
    path = tmp_path / 'my cells.jsonl'
    variants = ','.join(f'edge deletion {share} %' for share in range(1, 60))
    command = 'benchmark --scenario baselines --datasets Digits --models SGC --jobs 2'
    arguments = [*command.split(), '--cells', str(path), '--variants', variants]
    process = subprocess.Popen(
        [sys.executable, '-m', 'torch_geometric_cgt', *arguments],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, as of a terminal
    )
    try:
        while not path.exists() and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=30)[1]  # ends when nobody is left who could write
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert 'Traceback' not in errors
    assert f"The same command resumes; finished cells are in '{path}'" in errors
    assert 1 <= len(read_cells([path])) <= 20
    assert 'Digits 0 edge deletion' in errors and 'left' in errors  # what the bar shows


def test_controls_fail_as_they_must(folder: Path, cells: dict[CellKey, Cell]) -> None:
    keys = EXPERIMENTS['control'].keys(('Digits',))
    keys = [key for key in keys if key.model == 'GCN']
    found = run_cells(keys, folder / 'cells.jsonl', CONFIG, folder, log=False)
    labels, children = (found[key].scores for key in keys)
    assert labels['original'] == children['original'] == cells[GCN].scores['original']
    assert labels['generated']['accuracy'] < 0.2  # ten digits
    fair = cells[GCN].scores['generated']['accuracy']
    assert children['generated']['accuracy'] < fair - 0.05


def test_statistics_of_all_graphs(folder: Path, cells: dict[CellKey, Cell]) -> None:
    key = CellKey('statistics', 'Digits', '3', '')
    found = run_cells([key], folder / 'cells.jsonl', CONFIG, folder, log=False)[key]
    assert set(found.scores) == {'generated to quantized', 'quantized to original'}
    assert found.scores['quantized to original']['zero_vectors'] == 0.0
    total = {sum(counts) for counts in found.histograms['duplicates'].values()}
    assert total == {1770}  # the largest component


def test_training_on_another_graph(folder: Path, cells: dict[CellKey, Cell]) -> None:
    levels = ('original / original', 'generated / original', 'original / generated')
    keys = [CellKey('exchange', 'Digits', level, 'GCN') for level in levels]
    found = run_cells(keys, folder / 'cells.jsonl', CONFIG, folder, log=False)
    own, to_original, to_generated = (found[key].scores['score']['accuracy'] for key in keys)
    assert own > 0.9
    assert min(to_original, to_generated) > 0.6


@pytest.mark.parametrize('width', [10, 80])
def test_another_dataset_gets_the_width_and_the_labels_of_the_target(width: int) -> None:
    target = replace(_trees(), x=torch.rand(6, width), num_classes=12)
    trees = foreign_set('Digits', {'original': target}, GraphSpec('Cora', (2,)))
    assert isinstance(trees.x, torch.Tensor)
    assert trees.x.shape == (1770, width)
    assert trees.num_classes == 12
    assert trees.shape == target.shape
    assert bool((trees.x[:, 64:] == 0).all())  # 64 pixels


def test_graphs_of_cells() -> None:
    config = BenchmarkConfig()
    assert graph_of(replace(GCN, level='2'), config).num_neighbors == (7, 7)
    assert graph_of(replace(GCN, experiment='number', level='1'), config) == graph_of(GCN, config)
    assert graph_of(replace(GCN, experiment='shift', level='0.3'), config).alpha == 0.3
    assert graph_of(replace(GCN, experiment='link', level='Dot'), config).num_neighbors == (5, 5, 5)


def _trees() -> TreeSet:
    index = torch.arange(30).view(10, 3) % 7
    y, split = torch.arange(10) % 2, torch.tensor([1] * 6 + [4] * 4)
    return TreeSet(torch.eye(6), index, y, split, 2, TreeShape((2,)))


def test_shuffled_labels_keep_trees_and_counts() -> None:
    trees, out = _trees(), shuffle_labels(_trees(), 0)
    assert torch.equal(out.index, trees.index)
    assert not torch.equal(out.y, trees.y)
    for code in (1, 4):
        assert out.y[trees.split == code].sum() == trees.y[trees.split == code].sum()


def test_random_children_keep_roots_and_null_slots() -> None:
    trees, out = _trees(), shuffle_children(_trees(), 0)
    assert torch.equal(out.index[:, 0], trees.index[:, 0])
    assert torch.equal(out.index == 6, trees.index == 6)
    assert not torch.equal(out.index, trees.index)
    assert torch.equal(out.index.flatten().sort().values, trees.index.flatten().sort().values)


def test_variants_by_name() -> None:
    assert find_variant('k=100').build == {'k': 100}
    with pytest.raises(ValueError, match=r"'wrong'.*'no label'"):
        find_variant('wrong')
