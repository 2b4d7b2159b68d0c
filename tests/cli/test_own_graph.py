"""A user's own graph from its files to a release and back, for every kind of source."""

import json

import pytest
import torch

from tests.helpers.tables import own_graph, write_npz, write_pt, write_tables
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.cli import main

QUICK = '--k 10 --num-neighbors 2 2 --num-scenes 0 --task-weight 0 --epochs 1 --quiet'.split()


def sources(folder) -> dict[str, list[str]]:
    """The arguments of each kind of source, all for one graph."""
    data = own_graph()
    tables = write_tables(folder / 'csv', data)
    write_tables(folder / 'parquet', data, '.parquet')
    pair = ['--nodes', str(tables / 'nodes.csv'), '--edges', str(tables / 'edges.csv')]
    return {
        'pair of CSV files': [*pair, '--label', 'y', '--id', 'id'],
        'folder of Parquet files': ['--source', str(folder / 'parquet')],
        'npz': ['--source', str(write_npz(folder / 'graph.npz', data))],
        'pt': ['--source', str(write_pt(folder / 'graph.pt', data))],
        'function': ['--source', 'tests.helpers.tables:own_graph'],
    }


def test_all_kinds_of_sources_give_one_release(tmp_path, capsys):
    root, first = tmp_path / 'root', None
    kinds = sources(tmp_path)
    for i, (kind, arguments) in enumerate(kinds.items()):
        out = tmp_path / f'release-{i}'
        command = ['synthesize', *arguments, '--name', 'Trees', *QUICK, '--root', str(root)]
        assert main([*command, '--out', str(out)]) == 0, kind
        captured = capsys.readouterr()
        assert f"is kept in '{root}'" in captured.out and 'cgt cache list' in captured.out
        dataset = SyntheticCGTDataset.load(out)
        source = dataset.card['source']
        assert source['name'] == 'Trees' and 'not_carried' not in source
        assert (source['num_nodes'], source['num_features'], source['num_classes']) == (120, 8, 3)
        assert source['splits'] == 'of the source'
        first = first or dataset
        assert torch.equal(dataset.tokens, first.tokens), kind
        assert torch.equal(dataset.codebook, first.codebook), kind
        if i == 0:  # the owner sees how classes are numbered; the release does not say it
            assert 'ash = 0, birch = 1, cedar = 2' in captured.err
            assert not [path for path in out.iterdir() if b'birch' in path.read_bytes()]
    builds = [path for path in root.iterdir() if path.name.startswith('Trees')]
    assert len(builds) == 1  # the graph of every kind is the same, so that it is built once


def test_files_name_the_release_and_other_commands_read_them(tmp_path, capsys):
    tables = write_tables(tmp_path / 'forest', own_graph())
    assert main(['price', '--source', str(tables), '--epsilon', '8']) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith('120 nodes') and 'birch = 1' in captured.err
    assert main(['price', '--source', str(tables), '--epsilon', '8', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['entries']  # nothing else is on stdout
    assert main(['budget', '--source', str(tables), '--root', str(tmp_path / 'root')]) == 0
    assert capsys.readouterr().out.startswith('forest (')


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--nodes', 'nodes.csv'], "'--edges' is missing"),
        (['--edges', 'edges.csv'], "'--nodes' is missing"),
        (['--source', 'Cora', '--nodes', 'n.csv', '--edges', 'e.csv'], 'not both'),
        (['--nodes', 'n.csv', '--edges', 'e.csv'], "no file 'n.csv'"),
        (['--source', 'nowhere.npz'], 'no file or folder'),
        (['--source', 'Digits', '--name', 'two\nlines'], "'--name'"),
        (['--source', 'nowhere:graph'], 'cannot be imported'),
        (['--source', 'digits', '--label', 'y'], "'--label'"),
        (['--epsilon', '4', '--standardize'], 'which no ledger'),
        (['--epsilon', '4', '--missing', 'mean'], "'--missing mean'"),
    ],
)
def test_wrong_arguments_end_with_a_sentence(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(['synthesize', *arguments, '--out', 'out']) == 2
    assert message in capsys.readouterr().err
