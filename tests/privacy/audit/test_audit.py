"""The whole audit of a small release."""

import json
import re
from dataclasses import replace

import pytest
import torch

from tests.conftest import random_graph
from tests.privacy.audit.made_up import CONFIG, memorise
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark.audit_page import render_audit, write_audit
from torch_geometric_cgt.datasets.release import Release
from torch_geometric_cgt.datasets.source import check_source
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.privacy.audit import CHECKS, find_build, run_audit
from torch_geometric_cgt.privacy.audit.halves import halve

CHEAP = ('groups', 'support', 'copies', 'closest')
NAMES = [
    'Size of groups',
    'Codewords are means',
    'Statements of the card',
    'Support of paths',
    'Copies of source trees',
    'Distance to the closest record',
]


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    return tmp_path_factory.mktemp('root')


@pytest.fixture
def dataset(graph, quick, root):
    return SyntheticCGTDataset(graph, **{**quick, 'root': root})  # built once


def test_all_checks_and_the_page(graph, dataset, tmp_path):
    audit = run_audit(dataset, graph, num_canaries=20, device='cpu', log=False)
    names = [check.name for check in audit.checks]
    assert names[: len(NAMES)] == NAMES and names[-1].startswith('Canaries')
    assert {'membership', 'attribute', 'canary'} <= set(audit.details)
    assert all(check.verdict == 'passed' for check in audit.checks[:3])
    paths = write_audit(tmp_path, audit)
    assert [path.name for path in paths] == ['audit.json', 'audit.html']
    content = json.loads(paths[0].read_text())
    assert content['passed'] == audit.passed and len(content['checks']) == len(names)
    assert content['settings']['unit'] == 'node' and content['card'] == dataset.card
    page = paths[1].read_text()
    assert all(name in page for name in names) and page.count('<svg') == 2
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(link.startswith('#') for link in links)  # it loads nothing


def test_the_page_escapes_and_counts_what_failed(graph, dataset):
    audit = run_audit(dataset, graph, CHEAP, min_support=1000, log=False)
    assert [check.name for check in audit.failed] == ['Support of paths'] and not audit.passed
    card = {**audit.card, 'source': {**audit.card['source'], 'name': '<script>'}}
    page = render_audit({**audit.to_dict(), 'card': card})
    assert '1 of 6 checks failed' in page and '<script>' not in page


def test_a_release_alone_is_audited_by_its_card_and_nearest_codewords(graph, dataset, tmp_path):
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    audit = run_audit(loaded, graph, CHEAP, log=False)
    assert audit.settings['tokens'] == 'nearest codeword'
    assert [check.name for check in audit.checks] == [NAMES[0], *NAMES[3:]]
    same = run_audit(loaded.release, graph, CHEAP, log=False)
    assert same.to_dict() == audit.to_dict()
    own = run_audit(dataset, graph, CHEAP, log=False)
    assert own.settings['tokens'] == 'own group'


def test_a_build_is_found_again_by_its_release(graph, dataset, root):
    checked = check_source(graph)
    found = find_build(dataset.release, checked, root)
    assert found is not None and torch.equal(found.cluster, dataset.cluster)
    assert find_build(dataset.release, check_source(random_graph(seed=1)), root) is None
    trees = dataset.release.trees
    other = replace(dataset.release, trees=replace(trees, tokens=trees.tokens.flip(0)))
    assert find_build(other, checked, root) is None


def test_a_release_of_known_members_is_attacked_itself():
    """A memorising build from half of the nodes, with a card that fits."""
    graph = random_graph(300, 600)
    members = torch.rand(300, generator=torch.Generator().manual_seed(0)) < 0.5
    inside = halve(check_source(graph), members).inside
    built = memorise(inside, CONFIG)
    release = Release(built.trees, built.codebook, _card_of(inside, built))
    audit = run_audit(release, graph, ('copies', 'membership', 'attribute'), members=members)
    failed = [check.name for check in audit.failed]
    assert 'Copies of source trees' in failed
    assert 'Membership inference: area under the curve' in failed
    assert audit.settings['halves'] == 'given'
    with pytest.raises(SourceError, match='nodes: 300 in the source'):
        run_audit(release, graph, ('copies',))


def _card_of(source, built):
    numbers = {
        'num_nodes': source.data.num_nodes,
        'num_edges': source.data.num_edges,
        'num_features': source.data.num_features,
        'num_classes': source.num_classes,
        'num_labelled': source.root.numel(),
    }
    privacy = {
        'k': 5,
        'k_reached': 5,
        'num_clusters': len(built.codebook),
        'homogeneous': 0,
        'l_reached': 1,
        't_closeness': 0.5,
        'task_weight': 0.0,
        'unique_share': 0.5,
        'epsilon': None,
        'delta': None,
    }
    return {'source': {'name': 'Data', **numbers}, 'privacy': privacy}


def test_a_source_that_does_not_fit_is_refused_with_why(dataset):
    with pytest.raises(SourceError, match=r'not made from this source.*nodes: 130 in the source'):
        run_audit(dataset, random_graph(130), CHEAP)


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'checks': ('support', 'luck')}, r"\['luck'\]; choose from \['groups'"),
        ({'confidence': 1.0}, "'confidence'"),
        ({'min_support': 0}, "'min_support' must be at least 1"),
        ({'num_canaries': 0}, "'num_canaries'"),
        ({'max_epsilon': -1.0}, "'max_epsilon'"),
        ({'unit': 'edge'}, "got 'edge'"),
        ({'members': torch.zeros(3, dtype=torch.bool)}, '120 nodes'),
    ],
)
def test_bad_input(graph, dataset, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_audit(dataset, graph, **arguments)


def test_checks_are_methods_of_a_run():
    from torch_geometric_cgt.privacy.audit.run import AuditRun

    assert all(callable(getattr(AuditRun, name)) for name in CHECKS)
