"""``cgt export``, and the terms that ``cgt verify`` and ``cgt synthesize`` show and check."""

import json

import numpy as np
import pytest

from tests.helpers.exported import RECORDED, forest
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.release import Terms


def test_export(tmp_path, capsys):
    arguments = [str(RECORDED / 'nodes'), '--format', 'npz', '--out', str(tmp_path / 'out')]
    assert main(['export', *arguments, '--license', 'MIT']) == 0
    shown = capsys.readouterr().out
    assert 'license: MIT' in shown and 'is not signed' in shown and 'Not exported: ' in shown
    arrays = np.load(tmp_path / 'out' / 'forest.npz', allow_pickle=False)
    assert np.array_equal(arrays['edge_index'], forest(RECORDED / 'nodes')['edge_index'])
    assert main(['export', *arguments]) == 2
    assert 'exists already' in capsys.readouterr().err


def test_an_unknown_format_is_refused_by_the_parser(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(['export', 'release', '--format', 'xml', '--out', str(tmp_path)])
    assert 'huggingface' in capsys.readouterr().err


def test_terms_of_a_release_are_shown_and_kept(tmp_path, capsys):
    release, terms = str(tmp_path / 'release'), Terms('CC0-1.0', 'me@example.org')
    SyntheticCGTDataset.load(RECORDED / 'nodes').save(release, terms=terms)
    assert main(['verify', release]) == 0
    assert 'license: CC0-1.0' in capsys.readouterr().out
    assert main(['verify', release, '--json']) == 0
    assert json.loads(capsys.readouterr().out)['terms'] == terms.to_dict()
    assert main(['export', release, '--format', 'networkx', '--out', str(tmp_path / 'out')]) == 0
    assert 'contact: me@example.org' in capsys.readouterr().out


def test_wrong_terms_are_refused_before_a_build(quick, tmp_path, capsys):
    assert main(['synthesize', *quick, '--out', str(tmp_path / 'new'), '--license', ' ']) == 2
    assert "'license' of the card must not be empty" in capsys.readouterr().err
    assert not (tmp_path / 'root').exists()
