"""Attacks on builds that memorise, and on builds that have nothing to tell."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from tests.helpers.attacked import CONFIG, ignore, memorise, noisy_histogram, records, source, trees
from torch_geometric_cgt.audit import Limit, audit_build, audit_canaries
from torch_geometric_cgt.audit.attacks import guess_cluster, guess_label

LIMIT = Limit(1.0, 0.0, '')


def strange(num_nodes=400):
    """A source whose labels can be known from nothing but themselves."""
    found = source(num_nodes, num_classes=8)
    rng = torch.Generator().manual_seed(5)
    found.data.y = torch.randint(8, (num_nodes,), generator=rng)
    return found


@cache
def memorised(unit):
    return audit_build(strange(), CONFIG, memorise, unit)


@cache
def memorised_canaries():
    return audit_canaries(source(), CONFIG, memorise, num_canaries=60)


@pytest.mark.parametrize('unit', ['node', 'record'])
def test_memorised_members_are_found(unit):
    found = memorised(unit)
    areas = {a.score: a.area.value for a in found.membership.attacks if a.group == 'all'}
    assert areas['closest'] > 0.8 and areas['calibrated'] > 0.8 and areas['combined'] > 0.8
    assert found.membership.checks(LIMIT)[0].verdict == 'failed'


def test_memorised_labels_are_found():
    label, cluster = memorised('node').attributes
    assert label.members.value > 0.6 and label.others.value < 0.3
    assert label.check(LIMIT).verdict == 'failed'
    assert label.advantage.low > label.check(LIMIT).threshold
    assert cluster.advantage.value > 0


def test_a_build_that_ignores_its_source_passes():
    found = audit_build(source(), CONFIG, ignore)
    checks = [*found.membership.checks(LIMIT), *(a.check(LIMIT) for a in found.attributes)]
    assert {check.verdict for check in checks} == {'passed'}
    assert found.membership.checks(Limit(0.0, 0.0, ''))[0].verdict == 'passed'


def test_memorised_canaries_are_found_and_others_are_not():
    found = memorised_canaries()
    assert found.best.epsilon > 1.0 and found.check(LIMIT).verdict == 'failed'
    found = audit_canaries(source(), CONFIG, ignore, num_canaries=60)
    assert found.best.epsilon == 0.0 and found.check(LIMIT).verdict == 'passed'


def test_more_delta_means_less_of_a_bound():
    without, found = (
        memorised_canaries(),
        audit_canaries(source(), CONFIG, memorise, 60, delta=1e-3),
    )
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
    assert names == {'codebook', 'calibrated', 'closest', 'calibrated draws'}


@cache
def audited(epsilon):
    people = source(num_classes=8, num_features=120)
    return audit_canaries(people, CONFIG, noisy_histogram(epsilon), 100)


@pytest.mark.parametrize('epsilon', [0.25, 0.5, 1.0, 2.0, 2.5])
def test_private_builds_keep_their_claim(epsilon):
    found = audited(epsilon)
    assert found.best.epsilon <= epsilon < found.most
    assert found.check(Limit(epsilon, 0.0, '')).verdict == 'passed'


def test_a_private_build_without_its_noise_is_found_out():
    found = audited(None)
    for claim in (0.25, 0.5, 1.0):
        assert found.check(Limit(claim, 0.0, '')).verdict == 'failed'
    assert audited(5.0).check(Limit(0.25, 0.0, '')).verdict == 'failed'  # too little noise


def test_labels_are_guessed_from_trees():
    released = trees([[0, 1, 1, 1, 1]] * 5 + [[0, 2, 2, 2, 2]] * 5, [0] * 5 + [1] * 5)
    found = guess_label(released, records([[0, 1, 1, 1, 1], [0, 2, 2, 2, 2]], [1, 0]))
    assert found.tolist() == [0, 1]


def test_clusters_are_guessed_from_label_and_neighbours():
    released = trees(
        [[0, 1, 1, 1, 1]] * 5 + [[2, 2, 2, 2, 2]] * 5 + [[1, 1, 1, 1, 1]] * 5,
        [0] * 10 + [1] * 5,
    )
    known = records([[2, 1, 1, 1, 1], [0, 2, 2, 2, 2], [0, 1, 1, 1, 1]], [0, 0, 1])
    # what stands at the root does not matter, the label does
    assert guess_cluster(released, known).tolist() == [0, 2, 1]


def test_a_label_that_was_not_released_is_not_guessed():
    released = trees([[0, 1, 1, 1, 1]], [0])
    assert guess_cluster(released, records([[0, 1, 1, 1, 1]], [1])).tolist() == [-1]
