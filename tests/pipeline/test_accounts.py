"""The file of an account: what it keeps, and that it is not edited in silence."""

import json
import pickle
from dataclasses import replace

import pytest

from tests.helpers.builds import damage
from tests.helpers.costs import DELTA, UNIT, gaussian_cost
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import Account, CountedBuild, Odometer, check_source
from torch_geometric_cgt.privacy import Budget


@pytest.fixture
def account() -> Account:
    builds = (
        CountedBuild('1', 'a', 'now', gaussian_cost(4.0)),
        CountedBuild('2', 'b', 'now', gaussian_cost(4.0), seeded_noise=True),
        CountedBuild('3', 'c', 'now', parameters={'k': 30}),
    )
    limits = {UNIT: Budget(8.0, DELTA, UNIT)}
    return replace(Account.of(check_source(random_graph())), builds=builds, limits=limits)


def test_an_account_is_read_as_it_was_written(account, tmp_path):
    account.write(tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == f'{account.fingerprint}.json'
    assert Account.read(path) == account
    assert [build.is_private for build in account.builds] == [True, False, False]
    assert [build.is_k_anonymous for build in account.builds] == [False, False, True]
    assert account.costs(UNIT) == [account.builds[0].cost]


def edited(path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


EDITS = {
    'a build less': lambda content: content['builds'].pop(0),
    'a smaller cost': lambda content: content['builds'][0]['cost'].update(epsilon=0.1),
    'wider noise': lambda c: c['builds'][0]['cost']['ledger']['entries'][0]['noise'].update(
        sigma=99.0
    ),
    'marked as a test': lambda content: content['builds'][0].update(seeded_noise=True),
    'a larger limit': lambda content: content['limits'][UNIT].update(epsilon=99.0),
    'another source': lambda content: content['sketch'].update(rows=[]),
}


@pytest.mark.parametrize('edit', EDITS.values(), ids=list(EDITS))
def test_an_edited_file_is_an_error(account, tmp_path, edit):
    account.write(tmp_path)
    path = tmp_path / f'{account.fingerprint}.json'
    edited(path, edit)
    with pytest.raises(CorruptFileError, match=r'was altered.*Restore it from a backup'):
        Account.read(path)


@pytest.mark.parametrize('how', ['truncate', 'flip'])
def test_a_damaged_file_is_an_error(account, tmp_path, how):
    account.write(tmp_path / 'odometer')
    damage(tmp_path / 'odometer' / f'{account.fingerprint}.json', how)
    with pytest.raises(CorruptFileError):
        Odometer(tmp_path).accounts()


class Code:
    def __reduce__(self):
        return pytest.fail, ('unpickled',)


def test_a_file_is_not_unpickled_and_not_renamed(account, tmp_path):
    path = tmp_path / f'{account.fingerprint}.json'
    path.write_bytes(pickle.dumps(Code()))
    with pytest.raises(CorruptFileError):
        Account.read(path)
    account.write(tmp_path)
    moved = path.rename(tmp_path / f'{"0" * 64}.json')  # it would hide what another source spent
    with pytest.raises(CorruptFileError, match=account.fingerprint):
        Account.read(moved)


def test_sources_that_differ_by_one_node_are_near(account):
    graph = random_graph()
    graph.x[0] += 1
    other = Account.of(check_source(graph))
    assert account.is_near(other) and not account.is_near(account)
    assert not account.is_near(Account.of(check_source(random_graph(seed=1))))
