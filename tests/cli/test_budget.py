"""``cgt budget``."""

import json

import pytest

from tests.helpers.costs import DELTA, UNIT, gaussian_cost
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.datasets import Digits
from torch_geometric_cgt.pipeline import CountedBuild, DifferentialPrivacy, Odometer
from torch_geometric_cgt.privacy.composition import compose


@pytest.fixture
def root(tmp_path):
    odometer, graph = Odometer(tmp_path / 'root'), Digits()
    for i in (1, 2):
        odometer.charge(graph, CountedBuild(f'{i}', f'Digits-{i}', 'now', gaussian_cost(4.0)))
    seeded = CountedBuild('3', 'Digits-3', 'now', gaussian_cost(4.0), seeded_noise=True)
    odometer.charge(graph, seeded)
    odometer.note(graph, CountedBuild('4', 'Digits-4', 'now'))
    return tmp_path / 'root'


def run(capsys, root, *arguments):
    assert main(['budget', '--root', str(root), *arguments]) == 0
    return capsys.readouterr().out


def test_builds_and_their_total_are_listed(root, capsys):
    shown = run(capsys, root)
    together = compose([gaussian_cost(4.0)] * 2, DELTA)
    assert shown.startswith('Digits (') and '1,797 nodes' in shown
    assert [line.split()[0] for line in shown.splitlines() if line.startswith('Digits-')] == [
        'Digits-1',
        'Digits-2',
        'Digits-3',
        'Digits-4',
    ]
    assert 'noise from a seed: not counted' in shown and 'k-anonymous: no epsilon' in shown
    (total,) = [line.split() for line in shown.splitlines() if line.startswith(f'per {UNIT}')]
    assert total[2:] == ['2', f'{together:.4g}', f'{DELTA:.3g}', 'none', 'none']
    assert run(capsys, root, '--source', 'Digits') == shown


def test_a_limit_is_set_shown_and_removed(root, capsys):
    limit = ['--source', 'Digits', '--limit', '3', '--unit', UNIT, '--delta', str(DELTA)]
    (total,) = [line for line in run(capsys, root, *limit).splitlines() if 'per ' in line]
    assert total.split()[5] == '3' and 1 < float(total.split()[6]) < 3
    content = json.loads(run(capsys, root, '--json'))
    (record,) = content['sources']
    assert content['root'] == str(root)
    assert record['spending'][0]['limit'] == 3.0 and len(record['builds']) == 4
    assert 'sketch' not in record and 'rows' not in json.dumps(record)
    some = record['fingerprint'][:8]
    run(capsys, root, '--source', some, '--no-limit', '--unit', UNIT)
    assert Odometer(root).accounts()[0].limits == {}


def test_the_default_unit_is_that_of_a_private_build(tmp_path, capsys):
    shown = run(capsys, tmp_path, '--source', 'Digits', '--limit', '8')
    assert f'per {DifferentialPrivacy(1.0).unit}' in shown and 'no builds' in shown
    folders = ['--root', str(tmp_path), '--out', str(tmp_path / 'release')]
    promise = '--epsilon 20 --quiet'.split()
    assert main(['synthesize', *promise, *folders]) == 2
    error = capsys.readouterr().err
    assert 'above the limit of 8' in error and 'Nothing was read' in error


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--source', 'Nope'], 'first digits of the fingerprint'),
        (['--source', 'Digits', '--limit', '0'], 'must be positive'),
        (['--source', 'Digits', '--limit', '1', '--delta', '0.1'], 'must not exceed 1 / n'),
    ],
)
def test_wrong_arguments_end_with_a_sentence(tmp_path, capsys, arguments, message):
    assert main(['budget', '--root', str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_folder(tmp_path, capsys):
    assert 'No builds are counted' in run(capsys, tmp_path)
    assert list(tmp_path.iterdir()) == []
