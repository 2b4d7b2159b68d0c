"""Attacks on builds that memorise, and on builds that have nothing to tell."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from tests.helpers.attacked import CONFIG, ignore, memorise, noisy_histogram, source
from torch_geometric_cgt.audit import Limit, audit_build, audit_canaries
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, WITHIN, strongest
from torch_geometric_cgt.audit.epsilon_bounds import ClaimFamily
from torch_geometric_cgt.pipeline import KAnonymity

LIMIT = Limit(1.0, 0.0, '')


def strange(num_nodes=400):
    """A source whose labels can be known from nothing but themselves."""
    found = source(num_nodes, num_classes=8)
    rng = torch.Generator().manual_seed(5)
    found.data.y = torch.randint(8, (num_nodes,), generator=rng)
    return found


@cache
def memorised(unit):
    return audit_build(strange(600), CONFIG, memorise, unit, num_shadows=2)


@cache
def memorised_canaries():
    return audit_canaries(source(), CONFIG, memorise, num_canaries=60, unit='frozen_record')


@pytest.mark.parametrize('unit', ['node', 'frozen_record'])
def test_memorised_members_are_found(unit):
    found = memorised(unit)
    areas = {a.score: a.area.value for a in found.membership.attacks if a.group == 'all'}
    assert areas['closest'] > 0.8 and areas['calibrated'] > 0.8 and areas['combined'] > 0.8
    assert areas['shadows'] > 0.6 and 'codebook likelihood' in areas
    assert found.membership.checks(LIMIT)[0].verdict == ABOVE
    best = strongest(found.membership.accusations())
    assert best.epsilon > 1 and 'chance' not in best.sentence()


def test_memorised_labels_are_found():
    label = next(r for r in memorised('node').risks if r.name == 'inference of the label')
    assert label.members.value > 0.6 and label.others.value < 0.3
    check = label.check(LIMIT)
    assert check.verdict == ABOVE and check.low == label.risk.low > check.threshold


def test_edges_are_attacked_on_those_that_were_removed():
    found = memorised('node').edges
    assert {a.score for a in found.attacks} == {'pairs of tokens', 'pairs with label'}
    assert [check.name for check in found.checks(LIMIT)] == [
        'Edge inference: area under the curve',
        'Edge inference: edges found',
    ]


def test_a_build_that_ignores_its_source_passes():
    found = audit_build(source(), CONFIG, ignore, num_shadows=2)
    checks = [*found.membership.checks(LIMIT), *(r.check(LIMIT) for r in found.risks)]
    checks += found.edges.checks(LIMIT)
    assert {check.verdict for check in checks} == {NOTHING}
    assert found.membership.checks(Limit(0.0, 0.0, ''))[0].verdict == NOTHING


def test_memorised_canaries_are_found_and_others_are_not():
    found = memorised_canaries()
    assert found.best.epsilon > 1.0 and found.check(LIMIT).verdict == ABOVE
    found = audit_canaries(source(), CONFIG, ignore, num_canaries=60)
    assert found.best.epsilon == 0.0 and found.check(LIMIT).verdict == NOTHING


@pytest.mark.parametrize('unit', ['node', 'attributes', 'edge'])
def test_canaries_of_all_units_run_and_those_of_another_graph_are_not_found(unit):
    found = audit_canaries(source(), CONFIG, ignore, num_canaries=60, unit=unit)
    assert found.best.epsilon == 0.0 and found.unit == unit
    names = {guess.score for guess in found.guesses}
    assert names >= ({'pairs with label'} if unit == 'edge' else {'neighbours', 'closest'})


def test_memorised_canary_nodes_and_edges_are_found():
    node = audit_canaries(source(), CONFIG, memorise, num_canaries=60, unit='node')
    assert node.best.epsilon > 1.0
    # One node per codeword: an edge of the trees is an edge of the graph.
    own = replace(CONFIG, privacy=KAnonymity(1, task_weight=0, accept_no_anonymity=True))
    edge = audit_canaries(source(), own, memorise, num_canaries=60, unit='edge')
    assert edge.best.epsilon > 1.0 and edge.check(LIMIT).verdict == ABOVE


def test_more_delta_means_less_of_a_bound():
    without = memorised_canaries()
    found = audit_canaries(source(), CONFIG, memorise, 60, ClaimFamily(1e-3), unit='frozen_record')
    assert (without.delta, found.delta) == (0.0, 1e-3)
    assert without.best.epsilon > found.best.epsilon > 0


def test_a_model_without_likelihoods_is_attacked_by_its_draws():
    class Model:
        def eval(self):
            return self

        def sample(self, y, generator=None):
            return kept.trees.tokens[torch.arange(y.numel()) % len(kept.trees)]

    kept = memorise(source(), CONFIG)
    found = audit_canaries(source(), CONFIG, lambda *_: replace(kept, model=Model()), 20)
    names = {guess.score for guess in found.guesses}
    assert names == {'codebook', 'calibrated', 'closest', 'neighbours', 'calibrated draws'}


@cache
def audited(epsilon):
    people = source(num_classes=8, num_features=120)
    return audit_canaries(people, CONFIG, noisy_histogram(epsilon), 100, unit='frozen_record')


@pytest.mark.parametrize('epsilon', [0.25, 0.5, 1.0, 2.0, 2.5])
def test_private_builds_keep_their_claim(epsilon):
    found = audited(epsilon)
    assert found.best.epsilon <= epsilon < found.most
    assert found.check(Limit(epsilon, 0.0, '')).verdict in (NOTHING, WITHIN)


def test_a_private_build_without_its_noise_is_found_out():
    found = audited(None)
    for claim in (0.25, 0.5, 1.0):
        assert found.check(Limit(claim, 0.0, '')).verdict == ABOVE
    assert audited(5.0).check(Limit(0.25, 0.0, '')).verdict == ABOVE  # too little noise
