"""Builds for audits: canaries and shadow builds, and records that a mechanism memorises."""

import math
from dataclasses import replace

import pytest
import torch

from tests.helpers.attacked import CONFIG, ignore, memorise, source
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.audit import audit_canaries, claim_of, mechanism_on
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, WITHIN
from torch_geometric_cgt.audit.estimates import area
from torch_geometric_cgt.audit.neighbours import random_members, split_members
from torch_geometric_cgt.audit.rebuild import (
    likelihood_ratio,
    record_scores,
    scaled_to,
    shadow_score,
)
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.privacy import queries

NUM_CANARIES = 400
DP_SGD = {'epochs': 3.0, 'batch_size': 200, 'hidden_channels': 16}
FROZEN = {'unit': 'frozen_record', 'form': 'histograms'}
PRIVATE = [
    {'epsilon': 0.5, **FROZEN},
    {'epsilon': 1.0, **FROZEN},
    {'epsilon': 3.0, **FROZEN},
    {'epsilon': 3.0, **FROZEN, 'form': 'dp_sgd', 'dp_sgd': DP_SGD},
    {'epsilon': 6.0, 'unit': 'node'},
    {'epsilon': 6.0, 'unit': 'attributes'},
    {'epsilon': 6.0, 'unit': 'edge'},
]


def audit(private):
    """An audit of a build, and the claim that it is held against."""
    graph = random_graph(num_nodes=1000, num_edges=3000, num_features=60)
    rare = torch.zeros(1000, NUM_CANARIES)  # words that nobody uses but canaries
    graph.x = torch.cat([(graph.x > 1.5).float(), rare], dim=1)
    source = check_source(graph)
    private = DifferentialPrivacy(**{'noise_seed': 0, 'delta': 1e-4, **private})
    config = BuildConfig(num_neighbors=(3, 2), privacy=private)
    limit = claim_of(source, config, NUM_CANARIES)
    mechanism, family = mechanism_on(torch.device('cpu'), log=False), limit.family()[0]
    how = (NUM_CANARIES, family)
    return audit_canaries(source, config, mechanism, *how, unit=private.unit), limit


@pytest.fixture
def without_noise(monkeypatch):
    """Builds whose ledger is right and whose noise is missing."""
    nothing = lambda size, sigma, generator=None: torch.zeros(size, dtype=torch.long)  # noqa: E731
    monkeypatch.setattr(queries, 'discrete_gaussian', nothing)


@pytest.mark.parametrize('private', PRIVATE, ids=str)
def test_the_bound_stays_below_a_claim_that_it_could_exceed(private):
    found, limit = audit(private)
    assert 0.95 * private['epsilon'] < limit.epsilon < found.most
    check = found.check(limit)
    assert check.verdict in (NOTHING, WITHIN) and check.value <= check.threshold < found.most
    assert check.threshold >= limit.epsilon


@pytest.mark.parametrize(
    'private', [PRIVATE[1], PRIVATE[3], {'epsilon': 1.0, 'unit': 'attributes'}], ids=str
)
def test_without_its_noise_the_same_build_is_found_out(private, without_noise):
    found, limit = audit(private)
    assert found.check(limit).verdict == ABOVE


def test_sizes_shrink_with_the_source_and_k_stays():
    whole, part = source(400), source(100)
    promise = replace(CONFIG.k_anonymity, num_clusters=40, min_support=6)
    config = replace(CONFIG, privacy=promise, num_samples=1000, num_scenes=20)
    small = scaled_to(config, part, whole)
    assert (small.num_samples, small.num_scenes) == (250, 10)
    assert small.privacy == replace(promise, num_clusters=10, min_support=1)  # a quarter
    assert scaled_to(CONFIG, part, whole) == CONFIG
    with pytest.raises(ValueError, match='100 nodes cannot have groups of k = 200'):
        scaled_to(replace(CONFIG, privacy=KAnonymity(200)), part, whole)


def test_likelihood_ratio_by_hand():
    nan = math.nan
    inside = torch.tensor([[1.0, nan], [3.0, nan], [nan, 2.0], [nan, 4.0]], dtype=torch.double)
    outside = torch.tensor([[nan, 0.0], [nan, 2.0], [-1.0, nan], [1.0, nan]], dtype=torch.double)
    # The means are 2 and 3 inside, 0 and 1 outside; all four deviations are sqrt(2).
    found = likelihood_ratio(torch.tensor([2.0, 1.0], dtype=torch.double), inside, outside)
    assert found.tolist() == pytest.approx([1.0, -1.0])


def test_one_shadow_of_each_kind_is_enough():
    nan = math.nan
    found = likelihood_ratio(
        torch.tensor([1.0, 0.0]),
        torch.tensor([[1.0, nan], [nan, 1.0]]),
        torch.tensor([[nan, 0.0], [0.0, nan]]),
    )
    assert found.tolist() == pytest.approx([0.5, -0.5])


def attacked(mechanism, unit):
    people = source(300)
    members = random_members(people, unit, 7)
    split = split_members(people, members, unit)
    built = mechanism(split.members, CONFIG)
    target = record_scores(split, built, people.root, 0)
    score = shadow_score(people, CONFIG, mechanism, unit, people.root, target, 4)
    return area(score[members], score[~members])


@pytest.mark.parametrize('unit', ['node', 'frozen_record'])
def test_memorised_records_are_told_from_others(unit):
    assert attacked(memorise, unit).low > 0.6
    blind = attacked(ignore, unit)
    assert blind.low < 0.5 < blind.high
