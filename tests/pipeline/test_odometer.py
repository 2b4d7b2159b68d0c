"""All builds of a source are counted, and a limit of the owner is kept."""

import secrets
import warnings

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from tests.helpers.builds import builds, plain, promised
from tests.helpers.costs import DELTA, UNIT, gaussian_cost
from tests.helpers.graphs import random_graph
from tests.helpers.private import private_dataset
from tests.helpers.processes import in_a_process
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import audit_canaries, mechanism_on
from torch_geometric_cgt.errors import BudgetError, CorruptFileError
from torch_geometric_cgt.pipeline import (
    BuildConfig,
    CountedBuild,
    DifferentialPrivacy,
    Odometer,
    Pipeline,
    PrivatePipeline,
    check_source,
)
from torch_geometric_cgt.pipeline.odometer import BuildRegister
from torch_geometric_cgt.privacy import UNITS
from torch_geometric_cgt.privacy.composition import compose

UNIT_OF_BUILDS = DifferentialPrivacy(1.0).unit


def make(graph, tmp_path, epsilon=20.0, **promise) -> SyntheticCGTDataset:
    return private_dataset(graph, tmp_path, epsilon, **{'form': 'mixing', **promise})


def odometer(tmp_path) -> Odometer:
    return Odometer(tmp_path / 'root')


def caught(run) -> list[str]:
    """The warnings of a build about other builds."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter('always')
        run()
    return [str(warning.message) for warning in found if 'build' in str(warning.message)]


def without_first(graph) -> Data:
    keep = torch.arange(1, graph.num_nodes)
    edges, _ = subgraph(keep, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(x=graph.x[keep], y=graph.y[keep], edge_index=edges)


def kill(*_, **__):
    raise KeyboardInterrupt


def check_killed_build_counts(graph, tmp_path) -> None:
    """A build that is killed before its first answer, and whose folder is deleted, is counted."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Pipeline, 'run_stage', kill)
        make(graph, tmp_path)
    (account,) = odometer(tmp_path).accounts()
    assert [build.is_private for build in account.builds] == [True]
    assert 19 < account.builds[0].cost.epsilon <= 20
    assert account.builds[0].cost.unit == UNIT_OF_BUILDS


def test_a_killed_build_is_counted(graph, tmp_path):
    check_killed_build_counts(graph, tmp_path)


def test_a_build_that_counts_when_it_ends_is_found_out(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(BuildRegister, 'start', lambda *_: None)
    with pytest.raises((AssertionError, ValueError)):
        check_killed_build_counts(graph, tmp_path)


def check_resume_and_reload(graph, tmp_path) -> None:
    """A resumed build counts once, a build that is made again counts twice."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PrivatePipeline, 'fit', kill)
        make(graph, tmp_path)
    make(graph, tmp_path)  # goes on
    make(graph, tmp_path)  # from the cache
    (account,) = odometer(tmp_path).accounts()
    assert len(account.builds) == 1
    with pytest.warns(UserWarning, match='private build number 2'):
        private_again(graph, tmp_path)
    (account,) = odometer(tmp_path).accounts()
    first, second = account.builds
    assert first.cache == second.cache and first.id != second.id


def private_again(graph, tmp_path) -> None:
    SyntheticCGTDataset(
        graph,
        num_neighbors=[3, 2],
        root=tmp_path / 'root',
        log=False,
        device='cpu',
        force_reload=True,
        privacy=DifferentialPrivacy(20.0, form='mixing'),
    )


def test_a_resumed_build_counts_once_and_a_repeated_one_again(graph, tmp_path):
    check_resume_and_reload(graph, tmp_path)


@pytest.mark.parametrize('name', ['always the same', 'always another'])
def test_wrong_names_of_builds_are_found_out(graph, tmp_path, monkeypatch, name):
    if name == 'always the same':
        monkeypatch.setattr(secrets, 'token_hex', lambda _: 'same')
    else:
        monkeypatch.setattr(BuildRegister, '_mark', lambda _: secrets.token_hex(8))
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError)):
        check_resume_and_reload(graph, tmp_path)


def test_a_build_whose_folder_or_ledger_is_lost_is_paid_again(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(PrivatePipeline, 'fit', kill)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            make(graph, tmp_path)
        (work,) = builds(tmp_path / 'root')
        (work / 'ledger' / 'facts.json').unlink()
    (account,) = odometer(tmp_path).accounts()
    assert len(account.builds) == 2


def check_refused(graph, tmp_path, match) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pipeline, 'source', property(lambda _: pytest.fail('the source was read')))
        with pytest.raises(BudgetError, match=match):
            private_again(graph, tmp_path)


def test_a_build_above_the_limit_is_refused_before_it_reads(graph, tmp_path):
    own = odometer(tmp_path)
    own.set_limit(graph, 25.0, UNIT_OF_BUILDS)
    (work,) = builds(make(graph, tmp_path).root)
    spent = own.spending(graph)
    assert len(spent) == 1 and spent[0].num_builds == 1 and spent[0].limit == 25.0
    assert 5 < spent[0].left < 25 and 19 < spent[0].epsilon <= 20
    check_refused(graph, tmp_path, rf'above the limit of 25.*Spent: 20, by {work.name}.*Left.*read')
    assert len(own.account(graph).builds) == 1  # what is refused costs nothing
    assert (work / 'card.json').exists()
    own.set_limit(graph, 39.0, UNIT_OF_BUILDS)  # less than the sum of both
    private_again(graph, tmp_path)
    assert len(own.account(graph).costs(UNIT_OF_BUILDS)) == 2


def test_a_limit_that_is_not_checked_is_found_out(graph, tmp_path, monkeypatch):
    module = 'torch_geometric_cgt.pipeline.odometer._check_limits'
    monkeypatch.setattr(module, lambda *_: None)
    odometer(tmp_path).set_limit(graph, 10.0, UNIT_OF_BUILDS)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_refused(graph, tmp_path, 'above the limit')


def test_a_unit_without_a_limit_is_no_way_around_the_limit(graph, tmp_path):
    other = next(unit for unit in UNITS if unit != UNIT_OF_BUILDS)
    odometer(tmp_path).set_limit(graph, 100.0, other)
    check_refused(graph, tmp_path, f"limits builds per '{other}'.*nothing was read")
    odometer(tmp_path).set_limit(graph, None, other)
    assert make(graph, tmp_path).privacy.epsilon <= 20


def test_two_processes_do_not_both_pass_under_the_limit(tmp_path):
    out = in_a_process('tests.helpers.racing', tmp_path, 3, 'locked')
    assert out.stdout == '[0, 7, 7]', out.stderr[-2000:]
    assert len(Odometer(tmp_path).accounts()[0].builds) == 1


def test_without_the_lock_both_pass(tmp_path):
    """The race of the test above happens if nothing prevents it."""
    out = in_a_process('tests.helpers.racing', tmp_path, 3, 'unlocked')
    assert out.stdout == '[0, 0, 0]', out.stderr[-2000:]


def test_the_total_is_that_of_one_ledger_with_all_entries(graph, tmp_path):
    make(graph, tmp_path)
    make(graph, tmp_path, epsilon=30.0)
    own = odometer(tmp_path)
    (spent,) = own.spending(graph)
    costs = own.account(graph).costs(UNIT_OF_BUILDS)
    assert spent.epsilon == compose(costs, spent.delta)
    assert max(cost.epsilon for cost in costs) < spent.epsilon < sum(c.epsilon for c in costs)


def test_builds_with_a_seed_are_listed_and_cost_nothing(graph, tmp_path):
    odometer(tmp_path).set_limit(graph, 1.0, UNIT_OF_BUILDS)
    make(graph, tmp_path, noise_seed=0)
    (account,) = odometer(tmp_path).accounts()
    assert [build.seeded_noise for build in account.builds] == [True]
    assert odometer(tmp_path).spending(graph)[0].epsilon == 0


def check_audit_is_free(graph, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    config = BuildConfig(num_neighbors=(3, 2), privacy=DifferentialPrivacy(20.0, form='mixing'))
    mechanism = mechanism_on(torch.device('cpu'), log=False)
    audit_canaries(check_source(graph), config, mechanism, 10)
    assert not list(tmp_path.rglob('*.json'))


def test_builds_of_an_audit_are_not_counted(graph, tmp_path, monkeypatch):
    check_audit_is_free(graph, tmp_path, monkeypatch)


def test_an_audit_that_counts_is_found_out(graph, tmp_path, monkeypatch):
    run = Pipeline.run

    def counted(pipeline):
        own = (pipeline._source, pipeline.config, 'audit', pipeline.work)
        pipeline.register = BuildRegister(odometer(tmp_path), *own).start
        return run(pipeline)

    monkeypatch.setattr(Pipeline, 'run', counted)
    with pytest.raises(AssertionError):
        check_audit_is_free(graph, tmp_path, monkeypatch)


def test_a_nearly_equal_source_pays_with_the_other_one(graph, tmp_path):
    own, smaller = odometer(tmp_path), without_first(graph)
    make(graph, tmp_path)
    assert any('nearly equal' in text for text in caught(lambda: make(smaller, tmp_path)))
    assert len(own.accounts()) == 2
    for source in (graph, smaller):
        (spent,) = own.spending(source)
        assert spent.num_builds == 2 and spent.epsilon > 20.5
    own.set_limit(graph, 25.0, UNIT_OF_BUILDS)  # it holds for the smaller source too
    check_refused(smaller, tmp_path, 'of the nearly equal source')
    other = random_graph(seed=1)
    assert caught(lambda: make(other, tmp_path)) == []
    assert own.spending(other)[0].num_builds == 1


def test_k_anonymous_builds_are_noted_once(graph, quick):
    arguments = plain(quick)
    SyntheticCGTDataset(graph, **arguments)
    own = Odometer(quick['root'])
    (before,) = own.accounts()
    again = lambda: SyntheticCGTDataset(graph, **arguments, force_reload=True)  # noqa: E731
    assert caught(again) == []  # the same bytes
    (account,) = own.accounts()
    assert [b.cache for b in account.builds] == [b.cache for b in before.builds]
    assert [b.is_k_anonymous for b in account.builds] == [True]
    assert account.builds[0].parameters['k'] == 10


def test_a_second_k_anonymous_build_is_warned_of(graph, cached):
    arguments = plain(cached)
    (text,) = caught(lambda: SyntheticCGTDataset(graph, **arguments))
    assert 'other parameters' in text and 'can be intersected' in text
    (text,) = caught(lambda: SyntheticCGTDataset(without_first(graph), **arguments))
    assert 'nearly equal source' in text and 'differ by that person' in text
    assert caught(lambda: SyntheticCGTDataset(random_graph(seed=1), **arguments)) == []
    assert len(Odometer(cached['root']).accounts()) == 3


def test_private_and_k_anonymous_builds_warn_of_each_other(graph, quick, tmp_path):
    make(graph, tmp_path)
    (text,) = caught(lambda: SyntheticCGTDataset(graph, **plain(quick)))
    assert 'no epsilon holds for all releases' in text
    assert any('k-anonymous' in text for text in caught(lambda: make(graph, tmp_path, epsilon=30)))
    assert odometer(tmp_path).spending(graph)[0].num_builds == 2


def test_an_unfinished_k_anonymous_build_is_not_noted(graph, quick, monkeypatch):
    monkeypatch.setattr(Pipeline, 'run_stage', kill)
    with pytest.raises(KeyboardInterrupt):
        SyntheticCGTDataset(graph, **promised(quick, l=2))
    assert Odometer(quick['root']).accounts() == []


def test_an_altered_odometer_stops_all_builds(graph, quick, tmp_path):
    odometer(tmp_path).set_limit(graph, 25.0, UNIT_OF_BUILDS)
    (path,) = (tmp_path / 'root' / 'odometer').iterdir()
    path.write_text(path.read_text().replace('25.0', '2500.0'))
    for build in (lambda: make(graph, tmp_path), lambda: SyntheticCGTDataset(graph, **quick)):
        with pytest.raises(CorruptFileError, match='was altered'):
            build()


def test_sketches_stay_out_of_a_release(graph, tmp_path):
    dataset = make(graph, tmp_path)
    dataset.save(tmp_path / 'release')
    sketch = odometer(tmp_path).account(graph).sketch
    text = b''.join(p.read_bytes() for p in (tmp_path / 'release').iterdir())
    assert str(sketch.rows[0]).encode() not in text and b'neighbourhoods' not in text
    names = {path.name for path in (tmp_path / 'release').iterdir()}
    assert names == {'card.json', 'README.md', 'release.safetensors'}


def test_accounts_are_found_by_graph_and_by_fingerprint(graph, tmp_path):
    own = odometer(tmp_path)
    assert own.account(graph).builds == () and own.accounts() == []
    build = CountedBuild('1', 'cache', 'now', gaussian_cost(4.0))
    own.charge(graph, build)
    own.charge(graph, build)  # counted already
    account = own.account(graph)
    assert account.builds == (build,)
    assert own.account(account.fingerprint[:10]) == own.account(account) == account
    for wrong in ('', 'Cora', '0' * 64):
        with pytest.raises(ValueError, match='first digits of the fingerprint'):
            own.account(wrong)
    assert repr(own) == f"Odometer('{tmp_path / 'root'}')"


@pytest.mark.parametrize('epsilon, delta', [(0.0, None), (-1.0, None), (1.0, 0.5), (1.0, 0.0)])
def test_limits_are_checked(graph, tmp_path, epsilon, delta):
    with pytest.raises(BudgetError):
        odometer(tmp_path).set_limit(graph, epsilon, UNIT, delta)
    with pytest.raises(ValueError, match='nation'):
        odometer(tmp_path).set_limit(graph, 1.0, 'nation')
    assert odometer(tmp_path).accounts() == []


def test_a_limit_has_the_delta_of_its_owner(graph, tmp_path):
    account = odometer(tmp_path).set_limit(graph, 3.0, UNIT, DELTA)
    assert (account.limits[UNIT].epsilon, account.limits[UNIT].delta) == (3.0, DELTA)
    (spent,) = odometer(tmp_path).spending(graph)
    assert (spent.epsilon, spent.delta, spent.left) == (0, DELTA, 3.0)
