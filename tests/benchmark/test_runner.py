import os
import shlex
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from torch_geometric_cgt.benchmark import measure_cell, runner
from torch_geometric_cgt.benchmark.cells import Cell, read_cells
from torch_geometric_cgt.benchmark.experiments import (
    EXPERIMENTS,
    BenchmarkConfig,
    CellKey,
    GraphSpec,
)
from torch_geometric_cgt.benchmark.runner import Progress, run_cells
from torch_geometric_cgt.errors import SourceError

pytestmark = pytest.mark.usefixtures('short_networks')

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
    other = replace(SGC, variant='edge deletion 100 %')  # a graph that is not built
    path = tmp_path / 'cells.jsonl'
    found = run_cells([GCN, SGC, other], path, CONFIG, folder, jobs=2, log=False)
    assert {key: found[key].scores for key in (GCN, SGC)} == {
        key: cell.scores for key, cell in cells.items()
    }
    assert found[other].scores != found[SGC].scores


def test_equal_work_is_looked_up_with_its_facts(
    folder: Path, cells: dict[CellKey, Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_cell, 'train_gnn', None)  # nothing may be trained
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


def test_a_file_of_cells_is_not_a_folder(tmp_path: Path) -> None:
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
        start_new_session=True,  # a group of its own, as of a terminal
        # A test run in the background of a shell ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    errors = b''
    try:
        # The bar shows a cell after its process has written it to the file.
        while b' left' not in errors and (part := os.read(process.stderr.fileno(), 4096)):
            errors += part
        os.killpg(process.pid, signal.SIGINT)
        errors += process.communicate(timeout=60)[1]  # ends when no process is left
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    text = errors.decode()
    assert process.returncode == 130
    assert 'Traceback' not in text
    assert f"The same command resumes; finished cells are in '{path}'" in text
    assert 1 <= len(read_cells([path])) <= 20
    assert 'Digits 0 edge deletion' in text and 'left' in text  # what the bar shows


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


A, B = GraphSpec('Cora', (5, 5)), GraphSpec('Photo', (5, 5))
KEY = CellKey('aggregation', 'Cora', '2', 'GCN')
MEASURED = Cell(KEY, facts={'seconds': 10.0})
COPIED = Cell(KEY, facts={'seconds': 99.0, 'copied_from': 'number'})


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize('jobs, share', [(1, 1), (2, 2), (9, 2)])
def test_time_left_counts_builds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: int, share: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(runner, 'time', clock)
    with Progress({A: [KEY] * 3, B: [KEY] * 2}, jobs) as bar:
        bar.begin(A)
        assert bar.seconds_left() is None
        clock.now = 110.0  # 100 for the graph, 10 for the cell
        bar.add(A, MEASURED)
        assert bar.seconds_left() == (4 * 10 + 100) / share  # and the graph of B
        clock.now = 120.0
        bar.add(A, MEASURED)
        assert bar.seconds_left() == (3 * 10 + 100) / share
        bar.add(A, COPIED)  # takes no time, and says nothing about that of others
        assert bar.seconds_left() == 2 * 10 + 100
        bar.begin(B)
        clock.now = 330.0
        bar.add(B, MEASURED)
        assert bar.seconds_left() == 10
    shown = capsys.readouterr().err
    assert '4/5' in shown
    assert 'Photo begins, about 02:00 left' in shown
    assert 'Cora 2 GCN, about 00:10 left' in shown
