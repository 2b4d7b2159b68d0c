"""``cgt price``."""

import json

import pytest

from torch_geometric_cgt.cli import main


def test_price_prints_the_noise_of_a_budget_and_the_cost_of_noise(capsys):
    sizes = ['price', '--num-nodes', '2000', '--num-classes', '4', '--epsilon', '5']
    assert main(sizes) == 0
    shown = capsys.readouterr().out
    assert 'decoded sums' in shown and 'delta = 0.000234 per node' in shown
    assert 4.95 < float(shown.split('together: epsilon = ')[1].split(',')[0]) <= 5
    costs = []
    for noise in ('2', '4'):
        assert main([*sizes, '--noise', noise]) == 0
        shown = capsys.readouterr().out
        costs.append(float(shown.split('together: epsilon = ')[1].split(',')[0]))
    assert costs[0] > 1.5 * costs[1]
    assert main(['price', '--num-nodes', '2000', '--num-classes', '4', '--noise', '4']) == 0
    shown = capsys.readouterr().out
    assert 'sigma 4' in shown and 'together: epsilon = ' in shown
    assert main([*sizes, '--unit', 'edge', '--json']) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert [total['unit'] for total in ledger['totals']] == ['edge', 'edge']
    assert [total['relation'] for total in ledger['totals']] == ['zero-out', 'substitute']


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
            '--epsilon 2 --form histograms --max-degree 3 --num-nodes 2485 --num-classes 7'.split(),
            'its cells have 50.7 roots on average): use at least 4.8',
        ),
        (['--epsilon', '5', '--delta', '0.1', '--source', 'Digits'], 'must not exceed 1 / n'),
        (['--epsilon', '5', '--source', 'Digits', '--noise', '0'], "'--noise'"),
    ],
)
def test_wrong_prices_end_with_a_sentence(capsys, arguments, message):
    assert main(['price', *arguments]) == 2
    assert message in capsys.readouterr().err
