"""``cgt synthesize`` and ``cgt evaluate``, which share the arguments of a build."""

import argparse
import json
from functools import partialmethod

import pytest

from tests.helpers.builds import builds
from torch_geometric_cgt import FitConfig, datasets
from torch_geometric_cgt.benchmark import ZooConfig
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.cli.arguments import add_build_arguments, generator_of


def test_synthesize_then_evaluate(quick, quick_gnns, tmp_path, capsys, monkeypatch):
    terms = ['--license', 'CC0-1.0', '--intended-use', 'Tests']
    assert main(['synthesize', *quick, '--out', str(tmp_path / 'release'), *terms]) == 0
    shown = capsys.readouterr().out
    assert 'Not guaranteed' in shown and '1,797 computation graphs' in shown
    card = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert card['privacy']['k_reached'] >= 30
    assert card['terms'] == {'license': 'CC0-1.0', 'intended_use': 'Tests'}

    arguments = ['evaluate', *quick, '--models', 'SGC', '--out', str(tmp_path / 'report')]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert 'original' in shown and 'transfer' in shown and 'mse' in shown
    report = json.loads((tmp_path / 'report' / 'report.json').read_text())
    columns = {'original', 'ceiling', 'quantized', 'generated', 'transfer'}
    assert set(report['scores']) == columns and set(report['judged']['columns']) < columns
    assert report['notice'] in shown and 'the likelihoods of the fit' in report['notice']
    assert len(builds(tmp_path / 'root')) == 1  # what was fitted once is loaded

    assert report['graph'] == {}
    arguments = [*arguments[:-1], str(tmp_path / 'second'), '--release', str(tmp_path / 'release')]
    assert main([*arguments, '--graph']) == 0
    shown = capsys.readouterr().out
    assert 'quantized' not in shown and 'As one graph' in shown
    report = json.loads((tmp_path / 'second' / 'report.json').read_text())
    assert set(report['graph']['statistics']) == {'original', 'generated'}
    assert 'as one graph' in report['notice']
    assert 'id="joined"' in (tmp_path / 'second' / 'report.html').read_text()
    judge_and_compare(quick, tmp_path, capsys, monkeypatch)
    assert len(builds(tmp_path / 'root')) == 1


def test_a_private_release_and_its_report(quick, quick_gnns, tmp_path, capsys):
    private = [*quick, '--epsilon', '8']
    assert main(['synthesize', *private, '--out', str(tmp_path / 'release')]) == 0
    shown = capsys.readouterr().out
    assert '-differentially private' in shown and 'budgets add up' in shown
    arguments = ['evaluate', *private, '--models', 'SGC', '--out', str(tmp_path / 'report')]
    assert main(arguments) == 0
    assert len(builds(tmp_path / 'root')) == 1
    page = (tmp_path / 'report' / 'report.html').read_text()
    assert 'root tokens per label' in page and 'epsilon per node' in page
    shown = capsys.readouterr().out
    report = json.loads((tmp_path / 'report' / 'report.json').read_text())
    assert report['publishable'] is False and report['notice'] in shown
    assert report['notice'].startswith('Not for publication.') and 'Not for publication.' in page
    for title in ('Original', 'Quantized', 'Trained on generated, tested on original'):
        assert f'{title} (not for publication)' in page

    arguments = ['evaluate', '--release', str(tmp_path / 'release'), '--publishable', '--quiet']
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, 'load_source', lambda *_: pytest.fail('the source was read'))
        arguments += ['--graph', '--models', 'SGC', '--out', str(tmp_path / 'public')]
        assert main(arguments) == 0
    shown = capsys.readouterr().out
    report = json.loads((tmp_path / 'public' / 'report.json').read_text())
    assert report['publishable'] is True and report['notice'] in shown
    assert set(report['scores']) == set(report['mean']) == {'generated'}
    assert report['agreement'] == report['wasserstein'] == {} and 'fit' not in report
    assert all(set(counts) == {'generated'} for counts in report['histograms'].values())
    assert set(report['graph']['statistics']) == {'generated'}
    page = (tmp_path / 'public' / 'report.html').read_text()
    assert 'from the release alone' in page and 'not for publication' not in page.lower()


def judge_and_compare(quick, tmp_path, capsys, monkeypatch):
    """Evaluates a build by the zoo, and compares the reports of several graphs."""
    monkeypatch.setattr(ZooConfig, '__init__', partialmethod(ZooConfig.__init__, epochs=1))
    out = tmp_path / 'judged'
    models = ['--zoo', '--models', 'MLP,GCN-1,Children,Shuffled']
    zoo = ['evaluate', *quick, *models, '--out', str(out)]
    assert main(zoo) == 0
    shown = capsys.readouterr().out
    assert 'Ranking of models' in shown and 'x ceiling' in shown and 'Shuffled' in shown
    report = json.loads((out / 'report.json').read_text())
    assert set(report['judged']['columns']) == {'ceiling', 'quantized', 'generated'}
    assert 'ceiling' in report['notice']
    assert 'id="judged"' in (out / 'report.html').read_text()

    both = [str(out / 'report.json')] * 2
    assert main(['report', *both, '--out', str(tmp_path / 'graphs')]) == 0
    assert 'Mean' in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / 'graphs').iterdir()) == [
        'zoo.html',
        'zoo.json',
        'zoo.md',
    ]
    report['judged'] = None
    (out / 'report.json').write_text(json.dumps(report))
    assert main(['report', both[0], '--out', str(tmp_path / 'other')]) == 2
    assert '--zoo' in capsys.readouterr().err


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
        ('synthesize', ['--k', '1'], 'accept_no_anonymity=True'),
        ('synthesize', ['--k', '1000'], 'accept_one_group=True'),
        ('synthesize', ['--min-value-support', '31'], 'got 31'),
        ('synthesize', ['--rounding', '3'], 'got 3.0'),
        ('synthesize', ['--epsilon', '4', '--rounding', '0.1'], "'rounding' is for k-anonymity"),
        ('evaluate', ['--models', 'GCN,Nope'], 'Nope'),
        ('evaluate', ['--models', ','], 'choose from'),
        ('evaluate', ['--zoo', '--models', 'FastGCN'], 'SAGE-max'),
        ('evaluate', ['--models', 'SAGE-max'], 'FastGCN'),
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
    monkeypatch.setattr(datasets, 'SyntheticCGTDataset', lambda *_, **__: pytest.fail('built'))
    (tmp_path / 'out').mkdir()
    assert main(['synthesize', *quick, '--out', str(tmp_path / 'out')]) == 2
    assert 'exists already' in capsys.readouterr().err


def test_flags_of_the_fit_arrive(quick, tmp_path, monkeypatch):
    seen = {}

    def stop(*_, **arguments):
        seen.update(arguments)
        raise ValueError

    monkeypatch.setattr(datasets, 'SyntheticCGTDataset', stop)
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


def test_another_generator_is_chosen_by_name(tmp_path, capsys):
    """The release of a Markov model, which evaluates as any other, and wrong names."""
    arguments = '--source Digits --quiet --num-neighbors 2 2 --task-weight 0'.split()
    arguments += ['--root', str(tmp_path / 'root'), '--generator']
    assert main(['synthesize', *arguments, 'ngram', '--out', str(tmp_path / 'release')]) == 0
    assert 'NGram' in capsys.readouterr().out
    card = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert card['parameters']['generator']['model'] == 'NGram'
    for wrong, message in (('Markov', 'Unknown model'), ('NGram+view', 'NAME+tilt')):
        assert main(['synthesize', *arguments, wrong, '--out', str(tmp_path / 'wrong')]) != 0
        assert message in capsys.readouterr().err
    assert len(builds(tmp_path / 'root')) == 1


def test_options_of_generators():
    def chosen(*words):
        parser = argparse.ArgumentParser()
        add_build_arguments(parser)
        return generator_of(parser.parse_args(words))

    assert chosen() == {} and chosen('--generator', 'CGT') == {}
    assert chosen('--generator', 'cgt', '--num-scenes', '4') == {'num_scenes': 4}
    assert chosen('--generator', 'NGram+tilt') == {'model': 'NGram', 'tilt': True}
    assert chosen('--generator', 'Diffusion', '--num-scenes', '0') == {
        'model': 'Diffusion',
        'num_scenes': 0,
    }
