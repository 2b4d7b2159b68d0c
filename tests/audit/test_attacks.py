"""Attacks on builds that memorise, and on builds that have nothing to tell."""

from dataclasses import replace

import pytest
import torch

from tests.helpers.attacked import CONFIG, ignore, memorise, noisy_histogram, source
from torch_geometric_cgt.audit import Limit, audit_build, audit_canaries
from torch_geometric_cgt.audit.rebuild import scaled_to

LIMIT = Limit(1.0, 0.0, '')


def strange(num_nodes=400):
    """A source whose labels can be known from nothing but themselves."""
    found = source(num_nodes, num_classes=8)
    rng = torch.Generator().manual_seed(5)
    found.data.y = torch.randint(8, (num_nodes,), generator=rng)
    return found


@pytest.mark.parametrize('unit', ['node', 'record'])
def test_memorised_members_are_found(unit):
    found = audit_build(strange(), CONFIG, memorise, unit)
    areas = {a.score: a.area.value for a in found.membership.attacks if a.group == 'all'}
    assert areas['closest'] > 0.8 and areas['calibrated'] > 0.8 and areas['combined'] > 0.8
    assert found.membership.checks(LIMIT)[0].verdict == 'failed'


def test_memorised_labels_are_found():
    label, cluster = audit_build(strange(), CONFIG, memorise).attributes
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
    found = audit_canaries(source(), CONFIG, memorise, num_canaries=60)
    assert found.best.epsilon > 1.0 and found.check(LIMIT).verdict == 'failed'
    found = audit_canaries(source(), CONFIG, ignore, num_canaries=60)
    assert found.best.epsilon == 0.0 and found.check(LIMIT).verdict == 'passed'


def test_more_delta_means_less_of_a_bound():
    bounds = [
        audit_canaries(source(), CONFIG, memorise, 60, delta=delta).best.epsilon
        for delta in (0.0, 1e-3)
    ]
    assert bounds[0] > bounds[1] > 0


def test_a_model_without_likelihoods_is_attacked_by_its_draws():
    class Model:
        def eval(self):
            return self

        def sample(self, y, generator=None):
            return kept.trees.tokens[torch.arange(y.numel()) % len(kept.trees)]

    kept = memorise(source(), CONFIG)
    found = audit_canaries(source(), CONFIG, lambda *_: replace(kept, generator=Model()), 20)
    names = {guess.score for guess in found.guesses}
    assert names == {'codebook', 'calibrated', 'closest', 'calibrated draws'}


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


def test_sizes_shrink_with_the_source_and_k_stays():
    whole, part = source(400), source(100)
    config = replace(CONFIG, num_samples=1000, num_clusters=40, num_scenes=20, min_support=6)
    small = scaled_to(config, part, whole)
    assert (small.num_samples, small.num_clusters, small.num_scenes) == (250, 10, 10)
    assert small.min_support == 1  # a quarter of it
    assert small.k == config.k and scaled_to(CONFIG, part, whole) == CONFIG
    with pytest.raises(ValueError, match='100 nodes cannot have groups of k = 200'):
        scaled_to(replace(CONFIG, k=200), part, whole)
