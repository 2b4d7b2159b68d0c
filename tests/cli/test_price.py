"""``cgt price``."""

import json

import pytest

from torch_geometric_cgt import DifferentialPrivacy, SyntheticCGTDataset
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.datasets import from_files


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


@pytest.mark.filterwarnings('ignore')
def test_the_price_of_edge_values_is_what_a_build_pays(tmp_path, capsys):
    nodes, edges = tmp_path / 'nodes.csv', tmp_path / 'edges.csv'
    nodes.write_text('id,y,x\n' + ''.join(f'{i},{i % 2},{i % 5}\n' for i in range(300)))
    rows = ''.join(f'{i},{(i * 7 + 3) % 300},0.{i % 9}\n' for i in range(300))
    edges.write_text('source,target,weight\n' + rows)
    bounds = ['--edge-bounds', '0', '1', '--edge-bins', '4', '--epsilon', '20', '--json']
    files = ['price', '--nodes', str(nodes), '--edges', str(edges)]
    sizes = ['price', '--num-nodes', '300', '--num-classes', '2']
    shown = []
    for words in (files, sizes):
        assert main([*words, *bounds]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    privacy = DifferentialPrivacy(20, edge_bounds={'edge_weight': (0, 1)}, edge_bins=4)
    source = from_files(nodes, edges)
    paid = SyntheticCGTDataset(source, privacy=privacy, root=tmp_path, log=False)
    assert shown[0] == shown[1] == paid.card['privacy']['ledger']
    assert shown[0]['stages'][-1] == 'edge values'
    assert main([*files, '--epsilon', '20', '--json']) == 0
    assert 'edge values' not in json.loads(capsys.readouterr().out)['stages']


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
        ('--epsilon 5 --source Digits --edge-bounds 0 1'.split(), 'this one has neither'),
        (
            '--epsilon 5 --num-nodes 2000 --num-classes 4 --edge-bins 4'.split(),
            "'--edge-bins' needs '--edge-bounds'",
        ),
        (
            '--epsilon 5 --num-nodes 2000 --num-classes 4 --edge-bounds 1 0'.split(),
            'the lower one first',
        ),
    ],
)
def test_wrong_prices_end_with_a_sentence(capsys, arguments, message):
    assert main(['price', *arguments]) == 2
    assert message in capsys.readouterr().err
