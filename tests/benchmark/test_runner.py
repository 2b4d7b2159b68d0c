import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from torch_geometric_cgt.benchmark import runner
from torch_geometric_cgt.benchmark.cells import Cell, CellKey, read_cells
from torch_geometric_cgt.benchmark.exchange import foreign_set
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.benchmark.graphs import BenchmarkConfig, GraphSpec, graph_of
from torch_geometric_cgt.benchmark.runner import known_cells, run_cells
from torch_geometric_cgt.benchmark.training import TreeSet
from torch_geometric_cgt.benchmark.variants import find_variant, shuffle_children, shuffle_labels
from torch_geometric_cgt.data import TreeShape

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


def test_other_settings_are_another_benchmark(folder: Path, cells: dict[CellKey, Cell]) -> None:
    with pytest.warns(UserWarning, match='2 cells .* other settings'):
        assert known_cells(folder / 'cells.jsonl', replace(CONFIG, k=31)) == {}


def test_equal_work_is_looked_up(
    folder: Path, cells: dict[CellKey, Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, 'train_gnn', None)  # nothing may be trained
    same = CellKey('ablation', 'Digits', '0', 'GCN')
    found = run_cells([same], folder / 'cells.jsonl', CONFIG, folder, log=False)
    assert found[same].scores == cells[GCN].scores


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
