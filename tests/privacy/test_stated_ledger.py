"""Ledgers of files: limits before an accountant runs, totals, and the budget of a build."""

import copy
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.malicious import bounded_memory
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import (
    Budget,
    DiscreteGaussian,
    Entry,
    Gaussian,
    Ledger,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.stated_ledger import check_limits, read_ledger

DELTA = 1e-4
ROW = {'frozen_record': 1.0}
OLD = {'unit': 'record'}  # entries of releases before format 3
ENTRIES = [
    Entry('a', 'counts', ROW, DiscreteGaussian(10.0), 3),
    Entry('a', 'sums', ROW, Gaussian(4.0)),
    Entry('b', 'gradients', ROW, SampledGaussian(4.0, 0.01, 50)),
    Entry.free('b', 'hashes', 'drawn from a seed'),
]


@pytest.fixture(scope='module')
def stated():
    return Ledger(['a', 'b'], ENTRIES).to_dict(DELTA, ['frozen_record'])


def changed(stated, place, value):
    content = copy.deepcopy(stated)
    *outer, last = place
    inner = content
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return content


def test_a_ledger_is_read_as_it_was_written(stated):
    found = read_ledger(copy.deepcopy(stated))
    assert found.entries == ENTRIES
    assert found.to_dict(DELTA, ['frozen_record']) == stated


@pytest.mark.parametrize(
    'place, value, reason',
    [
        (('entries', 2, 'noise', 'steps'), 10**12, "'steps' of 'gradients'"),
        (('entries', 2, 'noise', 'steps'), 10**6 + 1, "'steps' of 'gradients'"),
        (('entries', 2, 'count'), 10**5, "'count' of 'gradients'"),
        (('entries', 2, 'noise', 'sampling_probability'), 0.0, 'sampling_probability'),
        (('entries', 1, 'noise', 'sigma'), 1e-9, "'sigma' of 'sums'"),
        (('entries', 1, 'noise', 'sigma'), '1', "'sigma' of 'sums'"),
        (('entries', 1, 'changes', 'frozen_record'), 1e8, 'change in widths'),
        (('entries', 0, 'noise', 'sigma'), 60_000.0, 'widths of discrete noise'),
        (('entries', 0, 'noise'), 'none', 'not a ledger'),
        (('entries', 0, 'note'), 'x' * 10**4, 'more than 1000 characters'),
        (('entries', 0, 'cost'), {'frozen_record': -1}, "'frozen_record' of 'counts'"),
        (('entries',), [None] * 1000, "'entries' must be a list of at most"),
        (('entries',), None, "'entries' must be a list of at most"),
        (('stages',), ['a', 'b'] * 100, "'stages' must be a list of at most"),
        (('totals', 0, 'delta'), 1e-200, 'delta'),
        (('totals', 0, 'unit'), ['frozen_record'], 'not a ledger'),
        (('sample',), {'max_parents': 10**9, 'depth': 2, 'undirected': True}, 'max_parents'),
        ((), None, None),
    ],
)
def test_numbers_beyond_the_limits_are_refused_at_once(stated, place, value, reason):
    started = time.process_time()
    with pytest.raises(LedgerError, match=reason or 'not a ledger'):
        read_ledger(changed(stated, place, value) if place else None)
    assert time.process_time() - started < 1


def test_work_is_bounded_as_a_sum(stated):
    many = [Entry('a', f'{i}', ROW, SampledGaussian(4.0, 0.01, 5)) for i in range(17)]
    content = {**stated, 'stages': ['a'], 'entries': [entry.to_dict() for entry in many]}
    with pytest.raises(LedgerError, match='sum of the mechanisms with sampling'):
        read_ledger(content)
    mixture = Entry('a', 'x', noise=SampledGaussian(0.5, 1e-6, 5), **OLD)
    content = {**stated, 'stages': ['a'], 'entries': [mixture.to_dict()]}
    content['sample'] = {'max_parents': 9, 'depth': 2, 'undirected': True}
    content['totals'] = [{**stated['totals'][0], 'unit': 'node'}]
    with pytest.raises(LedgerError, match='sum of the privacy losses of groups'):
        read_ledger(content)


def test_less_than_the_entries_cost_is_refused(stated):
    epsilon = stated['totals'][0]['epsilon']
    with pytest.raises(LedgerError, match='its entries cost'):
        read_ledger(changed(stated, ('totals', 0, 'epsilon'), 0.9 * epsilon))
    read_ledger(changed(stated, ('totals', 0, 'epsilon'), 0.9 * epsilon), verify=False)
    assert read_ledger(changed(stated, ('totals', 0, 'epsilon'), 1.1 * epsilon)).entries == ENTRIES


def test_a_ledger_of_another_budget_is_refused(stated):
    epsilon = stated['totals'][0]['epsilon']
    assert read_ledger(stated, Budget(epsilon, DELTA, 'frozen_record')).entries == ENTRIES
    for budget in (
        Budget(0.9 * epsilon, DELTA, 'frozen_record'),
        Budget(epsilon, DELTA / 2, 'frozen_record'),
        Budget(epsilon, DELTA, 'node'),
    ):
        with pytest.raises(LedgerError, match=r'does not keep the budget.*force_reload=True'):
            read_ledger(stated, budget)


@settings(max_examples=40, deadline=5000)
@given(
    st.floats(1e-6, 1e9),
    st.floats(1e-6, 1e9),
    st.floats(1e-9, 1.0),
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.sampled_from(['record', 'node', 'edge']),
)
def test_no_ledger_within_the_limits_takes_long(sigma, width, probability, steps, count, unit):
    noises = [Gaussian(sigma), DiscreteGaussian(sigma), SampledGaussian(width, probability, steps)]
    entries = [Entry('a', 'x', noise=noise, count=count, **OLD) for noise in noises]
    total = {'unit': unit, 'epsilon': 1e300, 'delta': DELTA, 'accountant': 'pld'}
    content = {
        'stages': ['a'],
        'sample': {'max_parents': 3, 'depth': 2, 'undirected': True},
        'entries': [entry.to_dict() for entry in entries],
        'totals': [total],
    }
    check_limits(content)
    started = time.process_time()
    try:
        with bounded_memory():
            assert len(read_ledger(content).entries) == 3
    except LedgerError as error:
        assert str(error)
    assert time.process_time() - started < 5
