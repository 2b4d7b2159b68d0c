"""``cgt synthesize`` and ``cgt evaluate``, which share the arguments of a build."""

import json

import pytest

from tests.helpers.builds import builds
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.cli import build
from torch_geometric_cgt.cli.main import main


def test_synthesize_then_evaluate(quick, quick_gnns, tmp_path, capsys):
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
    assert len(builds(tmp_path / 'root')) == 1  # what was fitted once is loaded

    arguments = [*arguments[:-1], str(tmp_path / 'second'), '--release', str(tmp_path / 'release')]
    assert main(arguments) == 0
    assert 'quantized' not in capsys.readouterr().out


def test_a_private_release_and_its_report(quick, quick_gnns, tmp_path, capsys):
    private = [*quick, '--epsilon', '8', '--form', 'histograms']
    assert main(['synthesize', *private, '--out', str(tmp_path / 'release')]) == 0
    shown = capsys.readouterr().out
    assert '-differentially private' in shown and 'budgets add up' in shown
    arguments = ['evaluate', *private, '--models', 'SGC', '--out', str(tmp_path / 'report')]
    assert main(arguments) == 0
    assert len(builds(tmp_path / 'root')) == 1
    page = (tmp_path / 'report' / 'report.html').read_text()
    assert 'root tokens per label' in page and 'epsilon per record' in page


def test_k_and_epsilon_are_two_promises(quick, tmp_path, capsys):
    both = ['synthesize', *quick, '--k', '30', '--epsilon', '8', '--out', str(tmp_path / 'out')]
    assert main(both) == 2
    assert 'Give one of the two' in capsys.readouterr().err


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
    monkeypatch.setattr(build, 'SyntheticCGTDataset', lambda *_, **__: pytest.fail('built'))
    (tmp_path / 'out').mkdir()
    assert main(['synthesize', *quick, '--out', str(tmp_path / 'out')]) == 2
    assert 'exists already' in capsys.readouterr().err


def test_flags_of_the_fit_arrive(quick, tmp_path, monkeypatch):
    seen = {}

    def stop(*_, **arguments):
        seen.update(arguments)
        raise ValueError

    monkeypatch.setattr(build, 'SyntheticCGTDataset', stop)
    flags = '--precision bfloat16 --compile --accumulate 2 --batch-size 64 --checkpoint-minutes 1'
    out = ['--out', str(tmp_path / 'out')]
    assert main(['synthesize', *quick, *flags.split(), '--no-resume', *out]) == 2
    assert seen['fit'] == FitConfig(
        1,
        64,
        precision='bfloat16',
        compile=True,
        accumulate=2,
        checkpoint_minutes=1.0,
        resume=False,
    )
