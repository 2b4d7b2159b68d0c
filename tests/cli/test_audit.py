"""``cgt audit`` on releases of the embedded graph: good, failing and edited ones."""

import json
from dataclasses import replace

import pytest
import torch

from torch_geometric_cgt.cli import main
from torch_geometric_cgt.privacy import queries
from torch_geometric_cgt.release.release import read_release, write_release

CHEAP = ['--checks', 'groups,support,copies']


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """The folders of a release and of the build that it was saved from."""
    folder = tmp_path_factory.mktemp('made')
    build = '--source Digits --epochs 1 --num-neighbors 2 2 --task-weight 0 --num-scenes 0'.split()
    build += ['--min-support', '2', '--quiet']
    paths = ['--root', str(folder / 'root'), '--out', str(folder / 'release')]
    assert main(['synthesize', *build, *paths]) == 0
    return folder / 'release', folder / 'root'


def audit(release, root, *arguments):
    where = ['--source', 'Digits', '--root', str(root), '--quiet', '--device', 'cpu']
    return main(['audit', str(release), *where, *map(str, arguments)])


def test_an_audit_of_a_release(made, tmp_path, capsys):
    release, root = made
    out = tmp_path / 'audit'
    code = audit(release, root, '--canaries', 20, '--shadows', 2, '--out', out)
    shown = capsys.readouterr().out
    content = json.loads((out / 'audit.json').read_text())
    verdicts = [check['verdict'] for check in content['checks']]
    assert code == (1 if 'above the limit' in verdicts else 0) and 'not checked' not in verdicts
    assert shown.startswith(content['headline']) and content['summary'] in shown
    assert (out / 'audit.html').read_text().count(content['headline']) == 1
    found = {check['name']: check for check in content['checks']}
    assert found['Size of groups']['verdict'] == 'nothing found'
    assert found['Size of groups']['says'].endswith('0 have fewer than 30 nodes.')  # counted
    assert found['Support of paths']['origin'] == 'the promise of the card: min_support = 2'
    assert found['Support of paths']['verdict'] == 'nothing found'
    attacks = content['details']['membership']['attacks']
    assert {attack['group'] for attack in attacks} >= {'all', 'hubs', 'outliers', 'rare labels'}
    assert {'shadows', 'combined', 'codebook likelihood'} <= {attack['score'] for attack in attacks}
    for attack in attacks:  # in every group, of 898 others
        rates = attack['true_positives']
        assert set(rates) == {'0.1', '0.01', '0.001'} and rates['0.001'] is None
        assert 0 <= rates['0.01']['others']['value'] <= 8 / min(898, attack['num_others'])
        assert rates['0.01']['share']['low'] <= rates['0.01']['share']['value']
    assert [risk['name'] for risk in content['details']['risks']][:2] == [
        'singling out',
        'linkability',
    ]
    assert content['details']['canary']['num_canaries'] == 20


def test_a_release_above_the_limit_ends_with_one(made, tmp_path, capsys):
    release, root = made
    assert audit(release, root, *CHEAP, '--min-support', 1000) == 1
    assert 'above the limit  Support of paths' in capsys.readouterr().out
    small = _with_card(release, tmp_path / 'small', k_reached=7)
    assert audit(small, tmp_path, *CHEAP) == 2  # loading refuses it already
    assert 'smallest group has 7 nodes, but k = 30 is promised' in capsys.readouterr().err


def test_without_the_groups_it_ends_with_three(made, tmp_path, capsys):
    """The build is not found in an empty folder, and its groups are not in the release."""
    release, root = made
    checks = ['--checks', 'groups,support']
    assert audit(release, root, *checks) == 0
    capsys.readouterr()
    assert audit(release, tmp_path, *checks) == 3
    shown = capsys.readouterr().out
    for name in ('Size of groups', 'Codewords are means', 'Statements of the card'):
        assert f'not checked  {name}: The cluster assignment' in shown
    # The support of paths is not checked, either. The degrees need no groups.
    assert '5 checks: 4 not checked; 1 nothing found.' in shown
    assert audit(release, tmp_path, *checks, '--allow-unchecked') == 0
    assert audit(release, tmp_path, '--checks', 'closest') == 0  # asked for


@pytest.mark.parametrize('noise', [True, False])
def test_a_release_whose_noise_is_missing_ends_with_one(noise, tmp_path, capsys, monkeypatch):
    """Everything says epsilon = 4, card and ledger; the noise is there, or is not."""
    nothing = lambda size, sigma, generator=None: torch.zeros(size, dtype=torch.long)  # noqa: E731
    if not noise:
        monkeypatch.setattr(queries, 'discrete_gaussian', nothing)
    build = '--source Digits --epsilon 4 --num-neighbors 2 2 --quiet'.split()
    paths = ['--root', str(tmp_path / 'root'), '--out', str(tmp_path / 'release')]
    assert main(['synthesize', *build, *paths]) == 0
    capsys.readouterr()
    checks = ['--checks', 'noise,sensitivity', '--neighbours', 4, '--out', tmp_path / 'audit']
    assert audit(tmp_path / 'release', tmp_path / 'root', *checks) == (0 if noise else 1)
    assert ('above the limit  Noise of every answer' in capsys.readouterr().out) == (not noise)
    content = json.loads((tmp_path / 'audit' / 'audit.json').read_text())
    assert [check['name'] for check in content['checks']] == [
        'Noise of every answer',
        'Sensitivity of every answer',
        'Results follow from answers',
    ]
    page = (tmp_path / 'audit' / 'audit.html').read_text()
    assert 'labels and splits' in page and 'Largest change' in page
    # Without the build, neither can be checked.
    assert audit(tmp_path / 'release', tmp_path / 'elsewhere', *checks) == 3


def test_help_lists_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(['audit', '--help'])
    shown = capsys.readouterr().out
    assert 'exit codes:' in shown and '1    a check is above the limit' in shown
    assert '2    there was' in shown and '3    no check is above' in shown


def test_an_edited_card_is_an_error(made, tmp_path, capsys):
    release, root = made
    edited = _with_card(release, tmp_path / 'edited')  # as it is
    path = edited / 'card.json'
    path.write_text(path.read_text().replace('"k": 30', '"k": 90'))
    assert audit(edited, root, *CHEAP) == 2
    assert 'card.json' in capsys.readouterr().err
    # Whoever writes a checksum of his own is found out by what the build wrote.
    assert audit(_with_card(release, tmp_path / 'sealed', unique_share=0), root, *CHEAP) == 2
    error = capsys.readouterr().err
    assert "not the one that its build wrote: ['privacy'] were changed" in error


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--checks', 'luck'], "Unknown checks ['luck']; choose from ['groups', 'support'"),
        (['--canaries', 0], "'num_canaries' must be at least 1 (got 0)"),
        (['--max-epsilon', -1], "'max_epsilon' must be a number >= 0 (got -1.0)"),
        (['--members', 'nowhere.npy'], "'nowhere.npy' is not a readable .npy file"),
        (['--source', 'Nope'], 'choose from'),
    ],
)
def test_wrong_arguments_end_with_a_sentence(made, capsys, arguments, message):
    assert audit(*made, *CHEAP, *arguments) == 2
    assert message in capsys.readouterr().err


def test_no_release_at_all(tmp_path, capsys):
    assert audit(tmp_path / 'nowhere', tmp_path) == 2
    assert 'There is no release' in capsys.readouterr().err


def _with_card(release, folder, **changes):
    """A copy of a release with other facts and the sentences that follow, sealed anew."""
    folder.mkdir()
    known = read_release(release)
    privacy = replace(known.privacy, **changes).to_dict()
    write_release(folder, replace(known, card={**known.card, 'privacy': privacy}))
    return folder
