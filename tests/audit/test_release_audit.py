"""The whole audit of a small release."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.helpers.attacked import CONFIG, memorise
from tests.helpers.graphs import random_graph
from tests.helpers.pages import CHROMIUM, Page, look
from torch_geometric_cgt import FitConfig, KAnonymity, SyntheticCGTDataset
from torch_geometric_cgt.audit import CHECKS, LedgerAnswer, find_build, run_audit
from torch_geometric_cgt.audit.audit_run import AuditRun
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED
from torch_geometric_cgt.audit.neighbours import split_members
from torch_geometric_cgt.audit.replay import Replayed
from torch_geometric_cgt.errors import CorruptFileError, SourceError
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.release.release import Release
from torch_geometric_cgt.release.wording import NEWEST
from torch_geometric_cgt.report.html_pages import render_audit
from torch_geometric_cgt.report.report_files import write_audit

CHEAP = ('groups', 'support', 'copies', 'closest')
NAMES = [
    'Size of groups',
    'Codewords are means',
    'Statements of the card',
    'Degrees are means of groups',
    'Support of paths',
    'Copies of source trees',
]


QUICK = {
    'privacy': KAnonymity(10, task_weight=0),
    'num_neighbors': [3, 2],
    'log': False,
    'device': 'cpu',
    'generator': {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2},
    'fit': FitConfig(epochs=1, batch_size=32),
}


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    return tmp_path_factory.mktemp('root')


@pytest.fixture(scope='module')
def dataset(root):
    return SyntheticCGTDataset(random_graph(), **QUICK, root=root)


@pytest.fixture(scope='module')
def audited(dataset):
    return run_audit(
        dataset, random_graph(), num_canaries=20, num_shadows=0, device='cpu', log=False
    )


@pytest.fixture(scope='module')
def page(audited):
    return render_audit(audited.to_dict())


def test_all_checks(dataset, audited, tmp_path):
    names = [check.name for check in audited.checks]
    assert names[: len(NAMES)] == NAMES and names[-1].startswith('Canaries')
    assert {'closest', 'membership', 'risks', 'canary'} <= set(audited.details)
    assert all(check.verdict == NOTHING for check in audited.checks[:4])
    (edges,) = audited.of(UNCHECKED)
    assert edges.name == 'Edge inference' and 'too few edges' in edges.says
    for check in audited.checks:  # a verdict has a limit, or the reason why there is none
        assert check.says
        assert check is edges or check.origin.startswith('no limit') == (check.threshold is None)
    assert [name for name in names if name.startswith('Risk')] == [
        'Risk of singling out',
        'Risk of linkability',
        'Risk of inference of the label',
        'Risk of inference of the features',
    ]
    paths = write_audit(tmp_path, audited)
    assert [path.name for path in paths] == ['audit.json', 'audit.html']
    content = json.loads(paths[0].read_text())
    assert content['verdict'] == audited.verdict and len(content['checks']) == len(names)
    assert content['headline'].startswith('The best attack finds ') and content['format'] == 2
    assert content['settings']['unit'] == 'node' and content['card'] == dataset.card
    for path in paths:  # exact statistics of the source are in it
        assert 'Do not publish this audit' in path.read_text()


def test_the_page_stands_by_itself(audited, page):
    assert all(check.name in page for check in audited.checks) and page.count('<svg') == 2
    found = Page(page)
    assert found.links == [] and 'script' not in found.tags


@pytest.mark.skipif(CHROMIUM is None, reason='there is no chromium to open the page with')
def test_the_page_in_a_browser(page, tmp_path):
    for found in look(page, tmp_path, [360, 1200]):
        assert found['errors'] == [] and found['loaded'] == 0
        assert found['needed'] == found['width']  # nothing sticks out
        assert len(found['tables']) == page.count('<table') and min(found['tables']) > 20
        assert max(found['boxes']) <= found['width']
        assert len(found['figures']) == 2
        assert all(w > 150 and h > 80 for w, h in found['figures'])


def test_the_page_escapes_and_counts_what_is_above_the_limit(graph, dataset):
    audit = run_audit(dataset, graph, CHEAP, min_support=1000, log=False)
    assert [check.name for check in audit.of(ABOVE)] == ['Support of paths']
    assert audit.exit_code() == 1
    card = {**audit.card, 'source': {**audit.card['source'], 'name': '<script>'}}
    page = render_audit({**audit.to_dict(), 'card': card})
    assert '6 checks: 1 above the limit; 5 nothing found.' in page and '<script>' not in page


def test_a_release_alone_is_audited_by_its_card_and_nearest_codewords(graph, dataset, tmp_path):
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    audit = run_audit(loaded, graph, CHEAP, log=False)
    assert audit.settings['tokens'] == 'nearest codeword'
    assert [check.name for check in audit.checks] == NAMES
    assert [check.name for check in audit.of(UNCHECKED)] == NAMES[:3]
    assert audit.exit_code() == 3 and audit.exit_code(allow_unchecked=True) == 0
    same = run_audit(loaded.release, graph, CHEAP, log=False)
    assert same.to_dict() == audit.to_dict()
    own = run_audit(dataset, graph, CHEAP, log=False)
    assert own.settings['tokens'] == 'cluster assignment of the build'


def test_a_build_is_found_again_by_its_release(graph, dataset, root):
    checked = check_source(graph)
    found = find_build(dataset.release, checked, root)
    assert found is not None and torch.equal(found.cluster, dataset.cluster)
    assert find_build(dataset.release, check_source(random_graph(seed=1)), root) is None
    trees = dataset.release.trees
    other = replace(dataset.release, trees=replace(trees, tokens=trees.tokens.flip(0)))
    assert find_build(other, checked, root) is None
    privacy = {**dataset.card['privacy'], 'k': 50}
    lie = replace(dataset.release, card={**dataset.card, 'privacy': privacy})
    with pytest.raises(CorruptFileError, match=r"\['privacy'\] were changed"):
        find_build(lie, checked, root)


def test_the_promise_of_the_support_rule_is_counted(graph, root, tmp_path):
    ruled = SyntheticCGTDataset(
        graph, **{**QUICK, 'privacy': KAnonymity(10, task_weight=0, min_support=3)}, root=root
    )
    (check,) = run_audit(ruled, graph, ('support',)).checks
    assert check.verdict == NOTHING and check.threshold == 3.0 <= check.value
    assert check.origin == 'the promise of the card: min_support = 3'
    (check,) = run_audit(ruled, graph, ('support',), min_support=1000).checks
    assert check.verdict == ABOVE and check.origin == 'asked for: min_support = 1000'
    (check,) = run_audit(ruled.release, graph, ('support',)).checks  # without the groups
    assert check.verdict == UNCHECKED and 'cluster assignment' in check.says
    trees = ruled.release.trees
    spoilt = replace(trees, y=trees.y.roll(1))
    dataset = SimpleNamespace(
        release=replace(ruled.release, trees=spoilt),
        cluster=ruled.cluster,
        edge_cluster=None,
        model=None,
        answers={},
        steps=None,
    )
    (check,) = run_audit(dataset, graph, ('support',)).checks
    assert check.verdict == ABOVE and check.value < 3


@pytest.fixture(scope='module')
def known():
    """A graph with known members."""
    members = torch.rand(300, generator=torch.Generator().manual_seed(0)) < 0.5
    return random_graph(300, 600), members


@pytest.fixture(scope='module')
def memorised(known):
    """A build that memorises the records of the members, and its card."""
    return _memorise_members(*known, 'frozen_record')


def _memorise_members(graph, members, unit):
    inside = split_members(check_source(graph), members, unit).members
    built = memorise(inside, CONFIG)
    return built.trees, built.codebook, _card_of(inside, built)


class PrivateRelease(Release):
    """With the card of a differentially private release, which has no groups."""

    @property
    def privacy(self):
        return _private(0.1, 'frozen_record')


def _private(epsilon, protects):
    return Card('differential privacy', 2, epsilon=epsilon, delta=1e-6, protects=protects)


def test_a_private_release_is_held_to_its_claim(known, memorised):
    graph, members = known
    release = PrivateRelease(*memorised)
    audit = run_audit(release, graph, CHECKS[:-1], members=members, log=False)
    assert not any(name in NAMES[:3] for name in (check.name for check in audit.checks))
    area = next(check for check in audit.checks if 'area' in check.name)
    assert area.verdict == ABOVE and 'epsilon = 0.1, delta = 1e-06' in area.origin
    assert audit.settings['unit'] == 'frozen_record'
    # The answers of the build and edges that it does not contain are missing.
    assert [check.name for check in audit.of(UNCHECKED)] == [
        'Noise of every answer',
        'Sensitivity of every answer',
        'Edge inference',
    ]
    card = {**audit.card, 'privacy': {'epsilon': 0.1, 'delta': 1e-6, 'protects': 'frozen_record'}}
    card |= {'num_trees': 3, 'created': 'today'}
    assert 'epsilon = 0.1' in render_audit({**audit.to_dict(), 'card': card})


def test_a_claim_for_a_node_that_is_attacked_by_its_record_says_so(known, memorised, monkeypatch):
    monkeypatch.setattr(PrivateRelease, 'privacy', _private(1.0, 'node'))
    graph, members = known
    how = {'members': members, 'unit': 'frozen_record', 'log': False}
    audit = run_audit(PrivateRelease(*memorised), graph, ('membership', 'risks'), **how)
    assert len(audit.checks) == 6
    for check in audit.checks:
        assert 'The attack is on one record' in check.says
        assert 'The claim is for a node' in check.says


@pytest.mark.parametrize('factor, verdict', [(1.0, NOTHING), (1.05, ABOVE)])
def test_answers_of_a_build_are_held_to_its_ledger(known, memorised, factor, verdict, monkeypatch):
    """A histogram of labels and a sum of features, with the stated noise or a little less."""
    graph, members = known
    monkeypatch.setattr(PrivateRelease, 'privacy', _private(0.1, 'node'))

    def replay(source):
        rng = torch.Generator().manual_seed(0)
        exact = {'labels': torch.bincount(source.data.y[source.root], minlength=3).double()}
        exact['sums'] = source.data.x.double().repeat(5, 1)
        return Replayed(
            [
                LedgerAnswer(name, 2.0, bound, value, value + 2 * noise / factor)
                for (name, value), bound in zip(exact.items(), (1.0, 100.0 * factor), strict=True)
                for noise in [torch.randn(value.shape, generator=rng, dtype=torch.double)]
            ]
        )

    release = PrivateRelease(*memorised)
    how = {'members': members, 'unit': 'frozen_record', 'log': False}
    audit = run_audit(release, graph, ('noise', 'sensitivity'), replay=replay, **how)
    noise, *rest = audit.checks
    assert noise.verdict == verdict and {check.verdict for check in rest} == {NOTHING}
    assert [check.name for check in rest] == [
        'Sensitivity of every answer',
        'Results follow from answers',
    ]
    assert audit.exit_code() == (verdict == ABOVE)
    card = {**audit.card, 'privacy': {'epsilon': 0.1, 'delta': 1e-6, 'protects': 'node'}}
    page = render_audit({**audit.to_dict(), 'card': card | {'num_trees': 3, 'created': 'today'}})
    assert 'No attack on members was run.' in page and 'Largest change' in page


def test_an_entry_without_answers_is_not_checked(known, memorised, monkeypatch):
    """The ledger has an entry whose noise is added to gradients, which are not kept."""
    graph, members = known
    entries = [{'name': name, 'noise': {}} for name in ('labels', 'gradients')]
    card = replace(_private(0.1, 'node'), ledger={'entries': entries})
    monkeypatch.setattr(PrivateRelease, 'privacy', card)
    value = torch.randn(50, generator=torch.Generator().manual_seed(0))
    answers = [LedgerAnswer('labels', 1.0, 1.0, 0 * value, value)]
    how = {'members': members, 'unit': 'frozen_record', 'max_epsilon': 1.0, 'log': False}
    release = PrivateRelease(*memorised)
    audit = run_audit(release, graph, ('noise',), replay=lambda _: Replayed(answers), **how)
    assert [check.verdict for check in audit.checks] == [NOTHING, UNCHECKED]
    assert audit.checks[1].name == 'Noise of gradients' and audit.exit_code() == 3


def test_a_release_of_known_members_is_attacked_itself(known):
    """A memorising build from half of the nodes, with a card that fits."""
    graph, members = known
    release = Release(*_memorise_members(graph, members, 'node'))
    audit = run_audit(release, graph, ('copies', 'membership', 'risks'), members=members)
    failed = [check.name for check in audit.of(ABOVE)]
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
    privacy = Card(
        'k-anonymity',
        len(built.codebook),
        k=5,
        k_reached=5,
        homogeneous=0,
        l_reached=1,
        t_closeness=0.5,
        task_weight=0.0,
        unique_share=0.5,
    ).to_dict()
    source = {'name': 'Data', **numbers}
    facts = {'source': source, 'privacy': privacy, 'parameters': CONFIG.to_dict()}
    return {'format': NEWEST, **facts}


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
        ({'num_shadows': -1}, "'num_shadows' must be at least 0"),
        ({'max_epsilon': -1.0}, "'max_epsilon'"),
        ({'unit': 'edge'}, "got 'edge'"),
        ({'members': torch.zeros(3, dtype=torch.bool)}, '120 nodes'),
    ],
)
def test_bad_input(graph, dataset, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_audit(dataset, graph, **arguments)


def test_checks_are_methods_of_a_run():
    assert all(callable(getattr(AuditRun, name)) for name in CHECKS)
