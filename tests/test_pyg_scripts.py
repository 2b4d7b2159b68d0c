"""The scripts of examples/pyg on a small release, and the program that compares them."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / 'examples' / 'pyg'
NAMES = sorted(path.stem for path in FOLDER.glob('*.py') if path.stem != 'common')


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f'loaded_{path.stem}', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def release(cached, tmp_path) -> str:
    SyntheticCGTDataset(random_graph(), **cached).save(tmp_path / 'release')
    return str(tmp_path / 'release')


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield
    sys.modules.pop('common', None)


@pytest.fixture
def runner(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / 'benchmarks')
    return load(ROOT / 'benchmarks' / 'pyg_scripts.py')


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', NAMES)
def test_a_script_runs_on_a_release(name, release, scripts, capsys):
    if name.startswith('lightning'):
        pytest.importorskip('pytorch_lightning', reason="needs the extra 'lightning'")
    script = load(FOLDER / f'{name}.py')
    if name == 'node2vec':
        with pytest.raises(ImportError, match='pyg-lib'):  # without a native extension
            script.main(['--release', release, '--epochs', '1'])
        return
    for form in ([], ['--joined']):
        score = script.main(['--release', release, *form, '--epochs', '2'])
        assert 0 <= score <= 1
        assert capsys.readouterr().out.endswith(f': {score:.4f}\n')


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', sorted(set(NAMES) - {'node2vec'}))
def test_a_script_learns_on_its_source(name, scripts, capsys):
    if name.startswith('lightning'):
        pytest.importorskip('pytorch_lightning', reason="needs the extra 'lightning'")
    score = load(FOLDER / f'{name}.py').main(['--source', 'tests.helpers.graphs:paper_graph'])
    bar = 0.63 if name == 'link_pred' else 0.7  # chance is 0.33 for labels and 0.5 for links
    assert score > bar


@pytest.mark.parametrize('name', NAMES)
def test_one_line_opens_the_dataset(name):
    text = (FOLDER / f'{name}.py').read_text()
    assert len(re.findall(r'open_dataset\(\s*args', text)) == 1
    assert 'release' not in re.sub(r'^r""".*?"""', '', text, flags=re.S)  # nothing else knows


def test_every_script_is_in_the_table(runner):
    assert sorted(runner.SCRIPTS) == NAMES and len(NAMES) >= 15
    cell = {'source': 'Cora', 'seed': 0, 'metric': 'test accuracy'}
    cells = [
        {'script': 'gcn', 'side': side, 'score': score, **cell}
        for side, score in [('source', 0.8), ('source', 0.9), ('release', 0.75), ('joined', 0.7)]
    ]
    page = runner.page([*cells, {'script': 'node2vec', 'side': 'source', 'error': 'no walks'}])
    row = next(line for line in page.splitlines() if 'pyg/gcn.py' in line)
    assert row.endswith('| test accuracy | 1 | 0.850 | 0.750 | 0.700 |')
    row = next(line for line in page.splitlines() if 'pyg/node2vec.py' in line)
    assert row.endswith('| - | 1 | not run | - | - |') and '`no walks`' in page
    assert page.count('`tagcn`, `arma`, `gcn2`, `mixhop`: Has') == 1  # one note for all of them


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore')
def test_the_runner_reads_the_score_and_the_error_of_a_script(runner, release):
    cell = runner.run('label_prop', 'release', '', release, 2, 0)
    assert cell['metric'] == 'test accuracy' and 0 <= cell['score'] <= 1
    broken = runner.run('label_prop', 'release', '', release + 'x', 2, 0)
    assert 'score' not in broken and broken['error']
    assert json.loads(json.dumps(cell)) == cell


def test_rows_of_two_releases_are_not_mixed(runner, release):
    digest = runner.release_digest(release)
    own = {'script': 'gcn', 'side': 'release', 'seed': 0, 'metric': 'a', 'score': 0.5}
    runner.check_release([{**own, 'digest': digest}, {'side': 'source'}], digest)
    other = {**own, 'script': 'gat', 'digest': 'ab'}
    for wrong in (other, own):  # rows without a digest are older
        with pytest.raises(SystemExit, match='--anew'):
            runner.check_release([wrong], digest)
    with pytest.raises(SystemExit, match='2 releases'):
        runner.page([{**own, 'digest': digest}, other])
    assert f'`{digest}`' in runner.page([{**own, 'digest': digest}])
    earlier = {**other, 'earlier': True, 'score': 0.25}
    runner.check_release([{**own, 'digest': digest}, earlier], digest)
    page = runner.page([{**own, 'digest': digest}, earlier])
    assert '| 0.250* |' in page and 'with a star on an earlier one' in page
    again = {**other, 'digest': digest, 'score': 0.75}
    page = runner.page([{**own, 'digest': digest}, earlier, again])
    assert '| 0.750 |' in page and '0.250' not in page  # the new row takes its place


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore')
def test_the_runner_goes_on_and_measures_anew(runner, release, cached, tmp_path, monkeypatch):
    cells = tmp_path / 'cells.jsonl'

    def start(*more, folder=release):
        chosen = ['--scripts', 'label_prop', '--sides', 'release', '--epochs', '1']
        given = ['runner', '--cells', str(cells), '--release', folder, *chosen, *more]
        monkeypatch.setattr(sys, 'argv', given)
        runner.main()
        return runner.read_cells(cells)

    first = start()
    assert len(first) == 1 and start() == first  # nothing is measured twice
    assert len(start('--seeds', '0', '1')) == 2
    other = {**cached, 'seed': 5}
    SyntheticCGTDataset(random_graph(), **other).save(tmp_path / 'other')
    with pytest.raises(SystemExit, match='another release'):
        start('--seeds', '2', folder=str(tmp_path / 'other'))
    again = start('--anew', folder=str(tmp_path / 'other'))
    assert len(again) == 1 and again[0]['digest'] != first[0]['digest']


def test_the_recorded_table_is_that_of_the_recorded_cells(runner):
    results = ROOT / 'docs' / 'results'
    cells = runner.read_cells(results / 'pyg_scripts.jsonl')
    assert (results / 'pyg_scripts.md').read_text() == runner.page(cells)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', [name for name in NAMES if name not in ('node2vec', 'label_prop')])
def test_a_script_learns_as_much_on_a_release_of_digits(name, scripts, tmp_path_factory):
    if name.startswith('lightning'):
        pytest.importorskip('pytorch_lightning', reason="needs the extra 'lightning'")
    folder = tmp_path_factory.getbasetemp() / 'digits'
    if not folder.exists():
        from torch_geometric_cgt.datasets import Digits

        root = tmp_path_factory.mktemp('root')
        SyntheticCGTDataset(Digits(), k=30, num_samples=600, root=root).save(folder)
    script = load(FOLDER / f'{name}.py')
    source, release = (  # with fewer epochs than the script's own, most do not converge
        script.main(where) for where in (['--source', 'Digits'], ['--release', str(folder)])
    )
    assert release > 0.5 and abs(source - release) < 0.25
