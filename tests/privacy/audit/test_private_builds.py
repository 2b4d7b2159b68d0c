"""Canaries in real private builds: below every claim, and found out without the noise."""

import pytest
import torch

from tests.conftest import random_graph
from torch_geometric_cgt.datasets import PrivateConfig
from torch_geometric_cgt.datasets.config import BuildConfig
from torch_geometric_cgt.datasets.source import check_source
from torch_geometric_cgt.privacy.audit import Limit, audit_canaries, mechanism_on

DP_SGD = {'epochs': 3.0, 'batch_size': 200, 'hidden_channels': 16}
PRIVATE = [
    {'epsilon': 0.5},
    {'epsilon': 1.0},
    {'epsilon': 2.0},
    {'epsilon': 4.0},
    {'epsilon': 8.0},
    {'epsilon': 2.0, 'form': 'dp_sgd', 'dp_sgd': DP_SGD},
    {'epsilon': 8.0, 'unit': 'node'},
]


def audit(private):
    graph = random_graph(num_nodes=1000, num_edges=3000, num_features=60)
    rare = torch.zeros(1000, 100)  # words that nobody uses but canaries
    graph.x = torch.cat([(graph.x > 1.5).float(), rare], dim=1)
    private = PrivateConfig(**{'form': 'histograms', 'noise_seed': 0, **private})
    config = BuildConfig(num_neighbors=(3, 2), private=private)
    mechanism = mechanism_on(torch.device('cpu'), log=False)
    return audit_canaries(check_source(graph), config, mechanism, 100, delta=1e-4)


@pytest.mark.parametrize('private', PRIVATE, ids=str)
def test_the_bound_stays_below_the_claim(private):
    found = audit(private)
    limit = Limit(private['epsilon'], 1e-4, 'the claim')
    assert found.check(limit).verdict == 'passed'


def test_with_next_to_no_noise_the_same_audit_finds_a_leak():
    found = audit({'epsilon': 1e4})
    assert found.best.epsilon > 1
    assert found.check(Limit(1.0, 1e-4, 'the claim')).verdict == 'failed'
