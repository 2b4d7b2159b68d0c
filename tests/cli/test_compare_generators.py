"""``cgt benchmark --generators`` on an own graph, from the file to the page."""

import json

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.cli import main


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([], "Give '--scenario' or '--generators', one of the two"),
        (['--generators', 'CGT', '--scenario', '1'], "Give '--scenario' or '--generators'"),
        (['--generators', 'GPT', '--datasets', 'Cora'], "Unknown model 'GPT'"),
        (['--generators', 'CGT'], "Give '--datasets', or one graph of your own"),
        (['--generators', 'CGT', '--datasets', 'Kora'], "Unknown dataset 'Kora'"),
        (['--generators', 'CGT,cgt', '--datasets', 'Cora'], 'names one of them twice'),
        (
            ['--generators', 'CGT', '--datasets', 'Cora', '--models', 'GNC'],
            "Unknown models ['GNC']",
        ),
        (
            ['--generators', 'CGT', '--datasets', 'Cora', '--option', 'NGram.order=1'],
            "'--option' names generators that are not compared: ['ngram']",
        ),
        (
            ['--generators', 'NGram', '--datasets', 'Cora', '--option', 'order=1'],
            "'--option' must be NAME.KEY=VALUE (got 'order=1')",
        ),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, capsys, arguments, message):
    assert main(['benchmark', '--cells', str(tmp_path / 'c.jsonl'), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / 'c.jsonl').exists()


@pytest.mark.slow
def test_an_own_graph_from_the_file_to_the_page(tmp_path, capsys):
    torch.save(random_graph(num_nodes=400, num_edges=1200), tmp_path / 'mine.pt')
    command = ['benchmark', '--generators', 'CGT,Resampled', '--source', str(tmp_path / 'mine.pt')]
    command += ['--k', '15', '--epochs', '1', '--num-neighbors', '2', '2', '--models', 'MLP,GCN']
    command += ['--root', str(tmp_path / 'builds'), '--cells', str(tmp_path / 'results.jsonl')]
    command += [
        '--out',
        str(tmp_path / 'out'),
        '--max-records',
        '100',
        '--option',
        'CGT.hidden_channels=16',
    ]
    command += ['--option', 'CGT.num_layers=1']
    assert main(command) == 0
    shown = capsys.readouterr()
    assert 'mine, seed 0, Resampled, build: finished' in shown.err
    assert 'mine, seed 0, Resampled, attack: finished' in shown.err
    assert 'Generators, graph by graph' in shown.out and 'k = 15 per feature vector' in shown.out
    found = json.loads((tmp_path / 'out' / 'generators.json').read_text())
    columns = found['graphs'][0]['columns']
    assert list(columns) == ['ceiling', 'quantized', 'CGT', 'Resampled']
    assert all(columns[name]['status'] == 'finished' for name in ('CGT', 'Resampled'))
    attacks = {name: columns[name]['attack'] for name in ('CGT', 'Resampled')}
    assert attacks['CGT']['area'] < attacks['Resampled']['low']
    assert f'{attacks["Resampled"]["area"]:.2f} [' in shown.out
    assert found['settings']['k'] == 15
    page = (tmp_path / 'out' / 'generators.html').read_text()
    assert 'Attack AUC' in page and f'{attacks["Resampled"]["area"]:.2f}<small>[' in page
    assert main(command) == 0
    assert 'finished' not in capsys.readouterr().err


def test_time_and_memory_of_builds(tmp_path, capsys):
    pytest.importorskip('matplotlib')
    torch.save(random_graph(num_nodes=150, num_edges=400), tmp_path / 'mine.pt')
    command = ['benchmark', '--generators', 'NGram', '--source', str(tmp_path / 'mine.pt')]
    command += ['--k', '15', '--num-neighbors', '2', '2', '--scaling', '--clock', 'processor']
    command += ['--root', str(tmp_path / 'builds'), '--cells', str(tmp_path / 'results.jsonl')]
    command += ['--out', str(tmp_path / 'out')]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert 'mine, seed 0, NGram, build: finished' in shown.err and 'NGram, GCN' not in shown.err
    assert 'Time and memory of builds' in shown.out and 'mine: 150 nodes' in shown.out
    assert (tmp_path / 'out' / 'scaling.png').exists()
    assert main(command) == 0
    assert 'finished' not in capsys.readouterr().err
