import json
import subprocess
import sys

import pytest

from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.cli.main import main
from torch_geometric_cgt.cli.main import main as cli

QUICK = ['--source', 'Digits', '--epochs', '1', '--quiet', '--num-neighbors', '2', '2']


@pytest.fixture
def quick(tmp_path):
    return [*QUICK, '--root', str(tmp_path / 'root')]


def test_synthesize_then_evaluate(quick, tmp_path, capsys):
    assert main(['synthesize', *quick, '--out', str(tmp_path / 'release')]) == 0
    shown = capsys.readouterr().out
    assert 'Not guaranteed' in shown and '1,797 computation graphs' in shown
    card = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert card['privacy']['k_reached'] >= 30

    arguments = ['evaluate', *quick, '--models', 'SGC', '--out', str(tmp_path / 'report')]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert 'original' in shown and 'transfer' in shown and 'mse' in shown
    report = json.loads((tmp_path / 'report' / 'report.json').read_text())
    assert set(report['scores']) == {'original', 'quantized', 'generated', 'transfer'}
    assert len(list((tmp_path / 'root').iterdir())) == 1  # what was fitted once is loaded

    arguments = [*arguments[:-1], str(tmp_path / 'second'), '--release', str(tmp_path / 'release')]
    assert main(arguments) == 0
    assert 'quantized' not in capsys.readouterr().out


def test_a_private_release_and_its_report(quick, tmp_path, capsys):
    private = [*quick, '--epsilon', '8', '--form', 'histograms']
    assert main(['synthesize', *private, '--out', str(tmp_path / 'release')]) == 0
    shown = capsys.readouterr().out
    assert '-differentially private' in shown and 'budgets add up' in shown
    arguments = ['evaluate', *private, '--models', 'SGC', '--out', str(tmp_path / 'report')]
    assert main(arguments) == 0
    assert len(list((tmp_path / 'root').iterdir())) == 1
    page = (tmp_path / 'report' / 'report.html').read_text()
    assert 'root tokens per label' in page and 'epsilon per record' in page


def test_k_and_epsilon_are_two_promises(quick, tmp_path, capsys):
    both = ['synthesize', *quick, '--k', '30', '--epsilon', '8', '--out', str(tmp_path / 'out')]
    assert main(both) == 2
    assert 'Give one of the two' in capsys.readouterr().err


def test_price_prints_the_noise_of_a_budget_and_the_cost_of_noise(capsys):
    sizes = ['price', '--num-nodes', '2000', '--num-classes', '4', '--epsilon', '5']
    assert main(sizes) == 0
    shown = capsys.readouterr().out
    assert 'decoded sums' in shown and 'together: epsilon = 5, delta = 0.000234' in shown
    costs = []
    for noise in ('2', '4'):
        assert main([*sizes, '--noise', noise]) == 0
        shown = capsys.readouterr().out
        costs.append(float(shown.split('together: epsilon = ')[1].split(',')[0]))
    assert costs[0] > 1.5 * costs[1]
    assert main(['price', '--num-nodes', '2000', '--num-classes', '4', '--noise', '4']) == 0
    shown = capsys.readouterr().out
    assert 'sigma 4' in shown and 'together: epsilon = ' in shown
    assert main([*sizes, '--unit', 'node', '--json']) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert ledger['totals'][0]['unit'] == 'node' and ledger['sample']['max_parents'] == 2


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([], "'--epsilon' is missing"),
        ('--num-nodes 2000 --num-classes 4 --noise 1000'.split(), 'too small for any signal'),
        ('--epsilon 5 --source Digits --public Nope'.split(), 'choose from'),
        (['--epsilon', '5'], "'--num-nodes'"),
        (['--epsilon', '0', '--source', 'Digits'], 'got 0.0'),
        (['--epsilon', '0.001', '--source', 'Digits'], 'use at least'),
        (['--epsilon', '1e-6', '--source', 'Digits'], 'use at least'),
        (
            '--epsilon 0.25 --unit node --num-nodes 2485 --num-classes 7'.split(),
            'its cells have 50.7 roots on average): use at least 1.2',
        ),
        (['--epsilon', '5', '--delta', '0.1', '--source', 'Digits'], 'must not exceed 1 / n'),
        (['--epsilon', '5', '--source', 'Digits', '--noise', '0'], "'--noise'"),
    ],
)
def test_wrong_prices_end_with_a_sentence(capsys, arguments, message):
    assert main(['price', *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    'command, arguments, message',
    [
        ('synthesize', ['--source', 'Nope'], 'choose from'),
        ('synthesize', ['--k', '0'], 'got 0'),
        ('synthesize', ['--accumulate', '0'], "'accumulate'"),
        ('synthesize', ['--checkpoint-minutes', '-1'], 'got -1.0'),
        ('synthesize', ['--k', '2000'], 'k=2000 for 1797 nodes'),
        ('evaluate', ['--models', 'GCN,Nope'], 'Nope'),
        ('evaluate', ['--models', ','], 'choose from'),
        ('evaluate', ['--seeds', '0'], "'--seeds'"),
        ('evaluate', ['--release', 'nowhere'], 'no release'),
    ],
)
def test_wrong_arguments_end_with_a_sentence(quick, tmp_path, capsys, command, arguments, message):
    assert main([command, *quick, *arguments, '--out', str(tmp_path / 'out')]) == 2
    error = capsys.readouterr().err
    assert error.startswith('cgt: error: ') and message in error and 'Traceback' not in error
    assert not (tmp_path / 'root').exists()


def test_an_existing_release_is_refused_before_any_work(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, 'SyntheticCGTDataset', lambda *_, **__: pytest.fail('built'))
    (tmp_path / 'out').mkdir()
    assert main(['synthesize', *quick, '--out', str(tmp_path / 'out')]) == 2
    assert 'exists already' in capsys.readouterr().err


def test_flags_of_the_fit_arrive(quick, tmp_path, monkeypatch):
    seen = {}

    def stop(*_, **arguments):
        seen.update(arguments)
        raise ValueError

    monkeypatch.setattr(cli, 'SyntheticCGTDataset', stop)
    flags = '--precision bfloat16 --compile --accumulate 2 --batch-size 64 --checkpoint-minutes 1'
    out = ['--out', str(tmp_path / 'out')]
    assert main(['synthesize', *quick, *flags.split(), '--no-resume', *out]) == 2
    assert seen['resume'] is False
    assert seen['fit_config'] == FitConfig(
        1, 64, precision='bfloat16', compile=True, accumulate=2, checkpoint_minutes=1.0
    )


def test_python_dash_m():
    out = subprocess.run(
        [sys.executable, '-m', 'torch_geometric_cgt', '--version'], capture_output=True, text=True
    )
    assert out.returncode == 0 and out.stdout.startswith('cgt ')


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            ['--scenario', '7'],
            "Unknown scenario '7'; choose from ['1', '2', '3', '4', 'aggregation'",
        ),
        (
            ['--scenario', '1', '--datasets', 'Kora'],
            "Unknown datasets ['Kora']; choose from ['Digits', 'Cora'",
        ),
        (['--scenario', '1', '--models', 'GCN,GNC'], "Unknown models ['GNC']; choose from ['GCN'"),
        (
            ['--scenario', '1,4', '--levels', '0'],
            "Unknown levels ['0'] of 'shift' (scenario 4); choose from ['iid', '0.01', '0.3']",
        ),
        (['--scenario', '1', '--epochs', '0'], "'epochs' must be at least 1 (got 0)"),
        (['--scenario', '1', '--k', '0'], "'k' must be at least 1 (got 0)"),
        (['--scenario', '1', '--variants', 'best'], "Unknown variant 'best'; choose from ['', "),
        (['--scenario', '1', '--seeds', '0'], "'--seeds' must be at least 1 (got 0)"),
        (['--scenario', '1', '--jobs', '0'], "'jobs' must be at least 1 (got 0)"),
    ],
)
def test_wrong_cells_are_refused(tmp_path, capsys, arguments, message):
    assert main(['benchmark', '--cells', str(tmp_path / 'cells.jsonl'), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / 'cells.jsonl').exists()


def test_cells_in_the_place_of_a_folder_are_refused(tmp_path, capsys):
    assert main(['benchmark', '--scenario', '1', '--cells', str(tmp_path)]) == 2
    assert f"'{tmp_path}' is a folder" in capsys.readouterr().err


def test_a_dataset_without_files_says_where_they_were_looked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('CGT_DATA_ROOT', str(tmp_path / 'nothing'))
    cells = str(tmp_path / 'cells.jsonl')
    assert main(['benchmark', '--scenario', '1', '--datasets', 'Cora', '--cells', cells]) == 2
    assert str(tmp_path / 'nothing') in capsys.readouterr().err
