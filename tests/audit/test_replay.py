"""Replays of private builds: right ones pass, and bugs planted in the code are found."""

import re
from dataclasses import replace

import pytest
import torch

from tests.helpers.attacked import source
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import insert_canaries, mechanism_on, run_audit
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED, WITHIN
from torch_geometric_cgt.audit.replay import replay_of
from torch_geometric_cgt.audit.sensitivity import largest_changes
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.pipeline import DifferentialPrivacy
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.privacy import queries
from torch_geometric_cgt.privacy.noise import discrete_gaussian

pytestmark = pytest.mark.usefixtures('short_networks')

UNITS = ('node', 'attributes', 'edge')


def audited(root, unit='node', **promise):
    graph = random_graph(250, 700)
    private = DifferentialPrivacy(12.0, unit=unit, **promise)
    how = {'num_neighbors': [3, 2], 'root': root, 'log': False, 'device': 'cpu'}
    dataset = SyntheticCGTDataset(graph, privacy=private, **how)
    return run_audit(dataset, graph, ('noise', 'sensitivity'), num_neighbours=6, log=False)


def verdicts(audit):
    return {check.name: check.verdict for check in audit.checks}


@pytest.mark.parametrize('unit', UNITS)
def test_a_right_build_passes(unit, tmp_path):
    audit = audited(tmp_path, unit)
    assert verdicts(audit) == {
        'Noise of every answer': NOTHING,
        'Sensitivity of every answer': NOTHING,
        'Results follow from answers': NOTHING,
    }
    assert audit.exit_code() == 0
    changes = audit.details['sensitivity']['changes']
    assert {c['entry'] for c in changes} >= {'root tokens per label', 'labels of neighbours'}
    assert max(c['change'] / c['bound'] for c in changes if c['bound']) > 0.99  # bounds are tight


@pytest.mark.parametrize('factor', [0.0, 0.4, 2.5])  # of 86 values
def test_wrong_noise_is_found(factor, tmp_path, monkeypatch):
    def scaled(size, sigma, generator=None):
        return (factor * discrete_gaussian(size, sigma, generator)).round().long()

    monkeypatch.setattr(queries, 'discrete_gaussian', scaled)
    found = verdicts(audited(tmp_path))
    assert found['Noise of every answer'] == (WITHIN if factor > 1 else ABOVE)


def test_the_noise_of_one_entry_alone_is_found(tmp_path, monkeypatch):
    """The labels have 12 numbers among thousands."""
    real = queries.Queries._answer

    def without(self, name, exact, grid):
        found = real(self, name, exact, grid)
        if name == 'labels and splits' and self.replay is None:
            self.answers[-1] = replace(self.answers[-1], released=exact)
        return found

    monkeypatch.setattr(queries.Queries, '_answer', without)
    audit = audited(tmp_path)
    (check,) = audit.of(ABOVE)[:1]
    assert check.name == 'Noise of every answer'
    assert set(re.findall(r"'([^']*)': too little noise", check.says)) == {'labels and splits'}


def test_noise_that_starts_from_the_same_seed_each_time_is_found(tmp_path, monkeypatch):
    def again(size, sigma, generator=None):
        return discrete_gaussian(size, sigma, torch.Generator().manual_seed(1))

    monkeypatch.setattr(queries, 'discrete_gaussian', again)
    check = audited(tmp_path).checks[0]
    assert check.verdict == ABOVE and 'not independent' in check.says


def test_rows_that_are_not_clipped_are_found(tmp_path, monkeypatch):
    real = queries.sums_on_grid
    monkeypatch.setattr(
        queries, 'sums_on_grid', lambda rows, *rest: real(2 * rows, *rest[:2], 2.0, rest[3])
    )
    check = audited(tmp_path).checks[1]
    assert check.verdict == ABOVE and 'sums' in check.says and check.value == pytest.approx(2)


def test_an_answer_that_is_exact_inside_is_found(tmp_path, monkeypatch):
    """The answers that are kept have noise, and the build goes on without it."""
    real = queries.Queries._answer

    def peek(self, name, exact, grid):
        found = real(self, name, exact, grid)
        return exact.double() * grid if name == 'root tokens per label' else found

    monkeypatch.setattr(queries.Queries, '_answer', peek)
    found = verdicts(audited(tmp_path))
    assert found['Results follow from answers'] == ABOVE
    assert found['Noise of every answer'] == NOTHING


def test_frozen_records_have_no_real_neighbours(tmp_path):
    audit = audited(tmp_path, 'frozen_record')
    noise, sensitivity = audit.checks
    assert noise.verdict == NOTHING and sensitivity.verdict == UNCHECKED
    assert 'No real graph differs from the source in one row' in sensitivity.says
    assert audit.exit_code() == 3


@pytest.mark.parametrize('unit', UNITS)
def test_a_coin_changes_answers_within_their_bounds(unit):
    shape = TreeShape((3, 2))
    canaries = insert_canaries(source(250), 20, shape, 0, unit)
    private = DifferentialPrivacy(12.0, unit=unit)
    config = BuildConfig(num_neighbors=shape.num_neighbors, privacy=private)
    built = mechanism_on(torch.device('cpu'), log=False)(canaries.inside, config)
    replay = replay_of(canaries.inside, config, built.answers, built.facts)
    flipped = []
    for place in range(3):
        coin = canaries.coin.clone()
        coin[place] = ~coin[place]
        flipped.append((f'coin {place}', replay(replace(canaries, coin=coin).inside)))
    found = largest_changes(replay(canaries.inside), flipped)
    assert {check.verdict for check in found.checks()} == {NOTHING}
    assert max(change.change for change in found.changes) > 0
