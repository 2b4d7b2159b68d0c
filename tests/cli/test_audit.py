"""``cgt audit`` on releases of the embedded graph: good, failing and edited ones."""

import json
from dataclasses import replace

import pytest
import torch

from torch_geometric_cgt.cli.main import main
from torch_geometric_cgt.privacy import mechanisms
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
    code = audit(release, root, '--canaries', 20, '--out', tmp_path / 'audit')
    shown = capsys.readouterr().out
    content = json.loads((tmp_path / 'audit' / 'audit.json').read_text())
    assert code == (0 if content['passed'] else 1)
    assert f'{sum(c["verdict"] == "failed" for c in content["checks"])} of' in shown
    assert (tmp_path / 'audit' / 'audit.html').exists()
    found = {check['name']: check for check in content['checks']}
    assert found['Size of groups']['verdict'] == 'passed'
    assert found['Size of groups']['says'].endswith('0 have fewer than 30 nodes.')  # counted
    assert found['Support of paths']['origin'] == 'the promise of the card: min_support = 2'
    assert found['Support of paths']['verdict'] == 'passed'
    assert found['Distance to the closest record']['verdict'] == 'descriptive'
    groups = {attack['group'] for attack in content['details']['membership']['attacks']}
    assert groups >= {'all', 'hubs', 'outliers', 'rare labels'}
    assert set(content['details']['membership']['attacks'][0]['true_positives']) == {
        '0.01',
        '0.001',
    }
    for attack in content['details']['membership']['attacks']:  # in every group, of 898 others
        rates = attack['true_positives']
        assert 0 <= rates['0.01']['others']['value'] <= 8 / min(898, attack['num_others'])
        assert rates['0.01']['share']['low'] <= rates['0.01']['share']['value']
        assert rates['0.001'] is None
    assert {a['attribute'] for a in content['details']['attribute']} == {'label', 'cluster'}
    assert content['details']['canary']['num_canaries'] == 20


def test_a_failing_release_ends_with_one(made, tmp_path, capsys):
    release, root = made
    assert audit(release, root, *CHEAP, '--min-support', 1000) == 1
    assert 'failed  Support of paths' in capsys.readouterr().out
    assert audit(_with_card(release, tmp_path / 'small', k_reached=7), tmp_path, *CHEAP) == 1
    assert 'failed  Size of groups: 7 (threshold 30)' in capsys.readouterr().out


@pytest.mark.parametrize('noise', [True, False])
def test_a_release_that_claims_less_than_its_mechanism_ends_with_one(
    noise, tmp_path, capsys, monkeypatch
):
    """Everything says epsilon = 1, card and ledger; the noise is there, or is not."""
    nothing = lambda size, sigma, generator=None: torch.zeros(size, dtype=torch.long)  # noqa: E731
    if not noise:
        monkeypatch.setattr(mechanisms, 'discrete_gaussian', nothing)
    build = '--source Digits --epsilon 1 --form histograms --num-neighbors 2 2 --quiet'.split()
    paths = ['--root', str(tmp_path / 'root'), '--out', str(tmp_path / 'release')]
    assert main(['synthesize', *build, *paths]) == 0
    capsys.readouterr()
    checks = ['--checks', 'canary', '--canaries', 300, '--out', tmp_path / 'audit']
    assert audit(tmp_path / 'release', tmp_path / 'root', *checks) == (0 if noise else 1)
    assert ('failed  Canaries' in capsys.readouterr().out) == (not noise)
    content = json.loads((tmp_path / 'audit' / 'audit.json').read_text())
    (check,), canary = content['checks'], content['details']['canary']
    assert check['threshold'] == canary['claim'] and 1 < canary['claim'] < canary['most']
    assert (check['value'] > check['threshold']) == (not noise)


def test_help_lists_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(['audit', '--help'])
    shown = capsys.readouterr().out
    assert 'exit codes:' in shown and '1    a check failed' in shown and '2    there was' in shown


def test_an_edited_card_is_an_error(made, tmp_path, capsys):
    release, root = made
    edited = _with_card(release, tmp_path / 'edited')  # as it is
    path = edited / 'card.json'
    path.write_text(path.read_text().replace('"k": 30', '"k": 90'))
    assert audit(edited, root, *CHEAP) == 2
    assert 'card.json' in capsys.readouterr().err
    # Whoever writes a checksum of his own is found out by what the build wrote.
    assert audit(_with_card(release, tmp_path / 'sealed', k=90), root, *CHEAP) == 2
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
    """A copy of a release with other statements, sealed anew."""
    folder.mkdir()
    known = read_release(release)
    privacy = {**known.card['privacy'], **changes}
    write_release(folder, replace(known, card={**known.card, 'privacy': privacy}))
    return folder
