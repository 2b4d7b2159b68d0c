"""The account of a source, and the sketch that recognizes nearly equal sources."""

import json
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from tests.helpers.builds import damage
from tests.helpers.costs import DELTA, UNIT, gaussian_cost
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import (
    Account,
    CountedBuild,
    Odometer,
    accounts,
    check_source,
)
from torch_geometric_cgt.pipeline.accounts import SKETCH_SIZE, SourceSketch, hash_rows
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


def sketch(graph) -> SourceSketch:
    return SourceSketch.of(check_source(graph))


def part(graph, keep) -> Data:
    edges, _ = subgraph(keep, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(x=graph.x[keep], y=graph.y[keep], edge_index=edges)


@settings(max_examples=20, deadline=None)
@given(st.integers(100, 400), st.floats(0.0, 1.0), st.integers(0, 99))
def test_small_sources_are_compared_exactly(num_nodes, share, seed):
    graph = random_graph(num_nodes, 2 * num_nodes, seed=seed)
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
    size = max(3, int(share * num_nodes))
    keep = order[:size]
    assert sketch(graph).share_in_common(sketch(part(graph, keep))) == pytest.approx(1.0)
    half, rest = order[: num_nodes // 2], order[num_nodes // 2 :]
    apart = sketch(part(graph, half)).share_in_common(sketch(part(graph, rest)))
    assert apart == 0.0
    both = torch.cat([half, rest[: len(rest) // 3]])
    found = sketch(part(graph, both)).share_in_common(sketch(part(graph, rest)))
    assert found == pytest.approx((len(rest) // 3) / len(rest))


@pytest.mark.parametrize('share', [0.5, 0.8, 0.95])
def test_large_sources_are_compared_approximately(share):
    graph = random_graph(6 * SKETCH_SIZE, 100)
    size = 3 * SKETCH_SIZE
    first, moved = torch.arange(size), torch.arange(size) + round((1 - share) * size)
    found = sketch(part(graph, first)).share_in_common(sketch(part(graph, moved)))
    assert found == pytest.approx(share, abs=0.05)


def test_order_layout_type_and_labels_do_not_matter():
    graph = random_graph()
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    assert sketch(part(graph, order)).rows == sketch(graph).rows
    graph.x = (graph.x > 0.5).float() * graph.x
    hashes = hash_rows(graph.x)
    assert torch.equal(hashes, hash_rows(graph.x.double()))
    assert torch.equal(hashes, hash_rows(graph.x.to_sparse()))
    assert torch.equal(hashes, hash_rows(graph.x.to_sparse_csr()))
    assert torch.equal(hash_rows(-graph.x * 0), hash_rows(graph.x * 0))
    other = graph.clone()
    other.y = 2 - other.y
    assert sketch(graph).share_in_common(sketch(other)) == 1.0


def check_few_features(compare) -> None:
    """Nodes with few different features are compared by their neighbourhoods."""
    graphs = [random_graph(seed=seed) for seed in (0, 1)]
    for graph in graphs:
        graph.x = torch.nn.functional.one_hot(graph.y, 3).float()
    first, second = map(sketch, graphs)
    assert not first.is_distinct
    assert compare(first, second) < 0.6
    without_one = part(graphs[0], torch.arange(119))
    assert compare(first, sketch(without_one)) > 0.9


def test_few_different_features():
    check_few_features(SourceSketch.share_in_common)
    with pytest.raises(AssertionError):  # features alone would equate both graphs
        check_few_features(
            lambda a, b: accounts._containment(a.rows, b.rows, a.num_nodes, b.num_nodes)
        )
