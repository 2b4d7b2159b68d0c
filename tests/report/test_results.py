import csv
import json

import pytest

from tests.helpers.cells import by_key, pair_cell, some_cells
from torch_geometric_cgt.benchmark.cells import add_cell
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.cli.main import main
from torch_geometric_cgt.report.results import Results, read_results


@pytest.fixture
def folder(tmp_path):
    """A folder of cells in several files."""
    for cell in some_cells().values():
        add_cell(tmp_path / 'cells' / f'{cell.key.experiment}.jsonl', cell)
    return tmp_path / 'cells'


def test_report_command(folder, tmp_path, capsys):
    out = tmp_path / 'out'
    assert main(['report', str(folder), '--out', str(out)]) == 0
    shown = capsys.readouterr().out
    assert '16 of 84' in shown and '0 of 40' in shown and str(out / 'report.html') in shown

    report = json.loads((out / 'report.json').read_text())
    assert [e['name'] for e in report['experiments']] == list(EXPERIMENTS)
    assert len(report['experiments'][0]['rows']) == 84
    names = sorted(path.name for path in (out / 'tables').iterdir())
    pairs = [f'{n}-agreement' for n in EXPERIMENTS if n not in ('exchange', 'statistics')]
    expected = [f'{n}.{e}' for n in ('summary', *EXPERIMENTS, *pairs) for e in ('csv', 'tex')]
    assert names == sorted(expected)
    with open(out / 'tables' / 'aggregation.csv', newline='') as file:
        status = [line['status'] for line in csv.DictReader(file)]
    assert (status.count('run'), status.count('not run')) == (16, 68)
    with open(out / 'tables' / 'summary.csv', newline='') as file:
        first = next(csv.DictReader(file))
    assert (first['dataset'], first['pairs run'], first['pairs asked']) == ('Cora', '8', '12')
    assert 'not run' in (out / 'tables' / 'aggregation.tex').read_text()


def test_several_files_and_folders_are_one_set(folder, tmp_path):
    add_cell(tmp_path / 'more.txt', pair_cell(0.9, 0.9, dataset='CiteSeer'))
    results = read_results([folder, tmp_path / 'more.txt'])
    (total,) = (s for s in results.summaries['aggregation'] if not s.dataset)
    assert total.run == 17


@pytest.mark.parametrize('content', [None, '', 'not a cell\n'])
def test_without_cells_there_is_no_report(tmp_path, capsys, content):
    path = tmp_path / 'cells.jsonl'
    if content is not None:
        path.write_text(content)
    assert main(['report', str(path), '--out', str(tmp_path / 'out')]) == 2
    error = capsys.readouterr().err
    assert 'Traceback' not in error and str(path) in error
    assert ('no file or folder' if content is None else 'no valid cell') in error
    assert ('damaged' in error) == bool(content)
    assert not (tmp_path / 'out').exists()


def test_folder_without_files_of_cells(tmp_path, capsys):
    (tmp_path / 'notes.txt').write_text('')
    assert main(['report', str(tmp_path), '--out', str(tmp_path / 'out')]) == 2
    assert 'no valid cell' in capsys.readouterr().err


def test_without_the_report_extra_there_are_tables(folder, tmp_path, monkeypatch, capsys):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == 'jinja2' else find(name)
    )
    assert main(['report', str(folder), '--out', str(tmp_path / 'out')]) == 0
    assert '[report]' in capsys.readouterr().err
    names = sorted(path.name for path in (tmp_path / 'out').iterdir())
    assert names == ['report.json', 'report.md', 'tables']


def test_headline_has_no_variants():
    cells = some_cells() | by_key(pair_cell(0.8, 0.7, variant='k=100'))
    results = Results.from_cells(cells)
    names = dict.fromkeys(row[0] for row in results.headline().body)
    assert list(names) == [
        '1. Noisy edges and aggregation',
        '2. Noisy edges and sampling',
        '3. Number of sampled neighbours',
        '4. Shift between training and test',
        'Link prediction',
    ]
    ablation = next(t for t in results.tables if t.experiment.name == 'ablation')
    assert results.variants(ablation).body[0][:2] == ['default', 'ours']
    text = results.only_run().text()
    assert 'no label' in text and 'k=100' in text


def test_cells_of_another_protocol_are_left_out(tmp_path):
    old = pair_cell(0.9, 0.9, level='Dot', experiment='link')
    add_cell(tmp_path / 'cells.jsonl', old)
    add_cell(tmp_path / 'cells.jsonl', pair_cell(0.8, 0.8))
    with pytest.warns(UserWarning, match=r'1 cells \(link\) were measured by another protocol'):
        results = read_results([tmp_path / 'cells.jsonl'])
    run = {table.experiment.name for table in results.tables if table.is_run}
    assert run == {'aggregation'}
