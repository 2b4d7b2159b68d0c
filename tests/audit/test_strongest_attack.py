"""The strongest membership attack on a generator."""

from dataclasses import replace

import pytest

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.audit.estimates import Estimate
from torch_geometric_cgt.audit.membership import Attack, Membership
from torch_geometric_cgt.audit.strongest_attack import StrongestAttack, attack_generator
from torch_geometric_cgt.errors import OutOfTime
from torch_geometric_cgt.pipeline import BuildConfig, KAnonymity, check_source
from torch_geometric_cgt.utils.run_limits import Limits


def test_the_interval_decides():
    weak = Attack('closest', 'hubs', 20, 20, Estimate(0.8, 0.4, 1.0), {})
    strong = Attack('density', 'all', 500, 500, Estimate(0.7, 0.65, 0.75), {})
    found = StrongestAttack.of(Membership([weak, strong], 0.95, {}))
    assert (found.score, found.area, found.low) == ('density', 0.7, 0.65)
    assert found.to_dict()['num_attacks'] == 2


def test_a_build_of_copies_is_attacked():
    source = check_source(random_graph(num_nodes=300, num_edges=700))
    config = BuildConfig(
        KAnonymity(10, task_weight=0), (3, 2), seed=1, generator={'model': 'Resampled'}
    )
    found = attack_generator(source, config, 0, 100, Limits())
    assert found['low'] > 0.5 and 0.5 < found['area'] <= found['high'] <= 1
    assert found['num_attacks'] >= 8
    with pytest.raises(OutOfTime):
        attack_generator(source, replace(config, seed=2), 0, 100, Limits(seconds=1e-6))
