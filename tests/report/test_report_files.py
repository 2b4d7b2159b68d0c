import csv
import json
import subprocess
import sys

import pytest

from tests.helpers.cells import some_cells
from torch_geometric_cgt.benchmark.cells import add_cell
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.cli.main import main
from torch_geometric_cgt.report.report_files import EXTRA, to_json, write_tables
from torch_geometric_cgt.report.text_tables import TextTable


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


@pytest.mark.parametrize('missing', EXTRA)
def test_without_the_report_extra_there_is_json(folder, tmp_path, monkeypatch, capsys, missing):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == missing else find(name)
    )
    assert main(['report', str(folder), '--out', str(tmp_path / 'out')]) == 0
    shown = capsys.readouterr()
    assert f'without {missing}: ' in shown.err and '[report]' in shown.err
    assert '16 of 84' in shown.out  # the terminal needs no extra
    assert [path.name for path in (tmp_path / 'out').iterdir()] == ['report.json']


def test_the_package_does_not_import_the_report_extra():
    blocked = [name for name in EXTRA if name != 'jinja2']  # which PyG itself imports
    program = f'import sys; sys.modules.update(dict.fromkeys({blocked})); import '
    program += 'torch_geometric_cgt.cli.main'
    out = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr


def test_json_keeps_all_digits_and_has_no_nan():
    records = [{'model': 'a,"b"\nc', 'score': 0.1 + 0.2, 'std': None}]
    assert json.loads(to_json(records)) == records
    with pytest.raises(ValueError, match='not JSON compliant'):
        to_json({'score': float('nan')})


def test_names_of_files_cannot_leave_the_folder(tmp_path):
    content = ([{'a': 1}], TextTable('', ['a', 'b'], [['x', '1']]))
    folder = tmp_path / 'deep' / 'tables'
    names = ['../../x', 'x', '...', 'ok', 'a' * 500]
    paths = write_tables(folder, dict.fromkeys(names, content))
    assert len(set(paths)) == 2 * len(names)
    assert all(path.resolve().parent == folder.resolve() for path in paths)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in paths)
    assert list(tmp_path.rglob('*.csv')) == list(folder.glob('*.csv'))
