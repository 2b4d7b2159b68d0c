import json

import pytest

from torch_geometric_cgt.errors import BudgetError, LedgerError
from torch_geometric_cgt.privacy import (
    Budget,
    CappedSample,
    DiscreteGaussian,
    Entry,
    Gaussian,
    Laplace,
    Ledger,
    SampledGaussian,
)

DELTA = 1e-5

STAGES = ['labels', 'projection', 'clustering', 'sequence model']


def ledger(sample=None) -> Ledger:
    return Ledger(
        STAGES,
        [
            Entry('labels', 'histogram', 'node', 1.0, DiscreteGaussian(8.0)),
            Entry.free('projection', 'random projection', 'it does not look at the data'),
            Entry('clustering', 'counts', 'node', 1.0, DiscreteGaussian(6.0), count=4),
            Entry('clustering', 'sums', 'node', 0.5, Gaussian(3.0)),
            Entry('sequence model', 'DP-SGD', 'record', 1.0, SampledGaussian(2.0, 0.02, 200)),
        ],
        sample,
    )


def test_total_is_an_independent_composition():
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = 5e-4
    parts = [
        pld.from_discrete_gaussian_mechanism(8.0, value_discretization_interval=step),
        pld.from_discrete_gaussian_mechanism(6.0, value_discretization_interval=step).self_compose(
            4
        ),
        pld.from_gaussian_mechanism(6.0, value_discretization_interval=step),
        pld.from_gaussian_mechanism(
            2.0, sampling_prob=0.02, value_discretization_interval=step
        ).self_compose(200),
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    total = ledger().total('record', DELTA)
    assert total.epsilon == pytest.approx(whole.get_epsilon_for_delta(DELTA), abs=5e-3)
    assert (total.unit, total.delta, total.accountant) == ('record', DELTA, 'pld')


def test_units_have_their_own_numbers():
    capped = ledger(CappedSample(2, 2))
    record, edge, node = (capped.total(unit, DELTA).epsilon for unit in ('record', 'edge', 'node'))
    assert record < node and edge < node
    only_trees = Ledger(
        ['sequence model'], [e for e in capped.entries if e.stage == 'sequence model']
    )
    only_trees.sample = capped.sample
    assert edge == only_trees.total('edge', DELTA).epsilon  # edges have no features
    with pytest.raises(LedgerError, match=r'CappedSample'):
        ledger().total('node', DELTA)
    assert capped.total('record', DELTA, 'substitute').epsilon > 1.5 * record


def test_a_stage_without_entry_leaves_no_total():
    part = Ledger(STAGES)
    part.add(Entry('labels', 'histogram', noise=Laplace(1.0)))
    assert part.missing == ['projection', 'clustering', 'sequence model']
    with pytest.raises(LedgerError, match=r'no entry.*: projection, clustering, sequence model'):
        part.total('record', DELTA)
    with pytest.raises(LedgerError, match=r'no entry'):
        part.calibrate(Budget(1.0, DELTA))
    whole = ledger()
    whole.total('record', DELTA)
    whole.require('validation')
    with pytest.raises(LedgerError, match=r'validation'):
        whole.total('record', DELTA)


def test_an_entry_of_an_unknown_stage_is_refused():
    with pytest.raises(LedgerError, match=r"'sizes' belongs to stage 'splits'.*labels"):
        ledger().add(Entry('splits', 'sizes', noise=Laplace(1.0)))


def test_ledger_survives_json():
    before = ledger(CappedSample(1, 1))
    content = json.loads(json.dumps(before.to_dict(DELTA, ['record', 'node'])))
    after = Ledger.from_dict(content)
    assert after.entries == before.entries and after.stages == before.stages
    assert after.sample == before.sample
    assert [total['unit'] for total in content['totals']] == ['record', 'node']
    cost = [entry['cost']['record'] for entry in content['entries']]
    assert cost[1] == 0.0 and max(cost) < content['totals'][0]['epsilon'] < sum(cost)


@pytest.mark.parametrize(
    'edit, message',
    [
        (lambda c: c['totals'][0].update(epsilon=0.5), 'epsilon = 0.5 per .record.*was altered'),
        (lambda c: c['entries'][0]['noise'].update(sigma=0.4), 'was altered'),
        (lambda c: c['entries'].pop(), 'no entry.*sequence model'),
        (lambda c: c['entries'][0]['noise'].update(kind='wish'), "not a ledger.*got 'wish'"),
        (lambda c: c.pop('entries'), "not a ledger: KeyError: 'entries'"),
        (lambda c: c['totals'][0].update(unit='graph'), "not a ledger.*got 'graph'"),
    ],
)
def test_an_edited_ledger_is_found_out(edit, message):
    content = ledger().to_dict(DELTA)
    edit(content)
    with pytest.raises(LedgerError, match=message):
        Ledger.from_dict(content)


@pytest.mark.parametrize('epsilon', [0.5, 4.0, 25.0])
def test_calibration_spends_the_budget_and_no_more(epsilon):
    found = ledger().calibrate(Budget(epsilon, DELTA))
    total = found.total('record', DELTA).epsilon
    assert 0.98 * epsilon < total <= epsilon
    assert found.entries[1] == ledger().entries[1]


def test_calibration_for_nodes_needs_more_noise():
    capped = ledger(CappedSample(2, 2))
    noise = [
        capped.calibrate(Budget(4.0, DELTA, unit)).entries[-1].noise.noise_multiplier
        for unit in ('record', 'node')
    ]
    assert noise[1] > 2 * noise[0]


def test_shares_divide_the_concentrated_cost():
    entries = [
        Entry('a', 'sums', sensitivity=2.0, noise=Gaussian(1.0), share=3.0),
        Entry('b', 'sums', noise=Gaussian(1.0), count=4),
    ]
    first, second = Ledger(['a', 'b'], entries).calibrate(Budget(2.0, DELTA)).entries
    rho = [e.count * e.noise.concentrated(e.sensitivity) for e in (first, second)]
    assert rho[0] == pytest.approx(3 * rho[1])


def test_fixed_entries_keep_their_noise():
    spent = Entry('a', 'sums', noise=Gaussian(4.0), fixed=True)
    rest = Entry('b', 'sums', noise=Gaussian(4.0))
    found = Ledger(['a', 'b'], [spent, rest]).calibrate(Budget(2.0, DELTA))
    assert found.entries[0] == spent
    assert found.total('record', DELTA).epsilon == pytest.approx(2.0, rel=0.01)
    with pytest.raises(BudgetError, match=r'epsilon = 0.5 per record is not enough: \d'):
        Ledger(['a', 'b'], [spent, rest]).calibrate(Budget(0.5, DELTA))
    with pytest.raises(BudgetError, match=r'all are free or fixed'):
        Ledger(['a'], [spent]).calibrate(Budget(1.0, DELTA))


def test_what_costs_nothing_for_a_unit_cannot_be_calibrated_for_it():
    rows = Ledger(['a'], [Entry('a', 'sums', 'node', noise=Gaussian(4.0))])
    with pytest.raises(BudgetError, match=r'cannot be spent'):
        rows.calibrate(Budget(1.0, DELTA, 'edge'))


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: Gaussian(0.0), "'sigma' must be positive and finite .got 0.0"),
        (lambda: Laplace(float('nan')), "'scale'"),
        (lambda: SampledGaussian(1.0, 1.5, 10), "'sampling_probability' must not exceed 1"),
        (lambda: SampledGaussian(1.0, 0.5, 1.5), "'steps' must be an integer"),
        (lambda: Entry('a', 'b', 'graph', note='x'), "got 'graph'"),
        (lambda: Entry('a', 'b', sensitivity=-1.0, note='x'), "'sensitivity'"),
        (lambda: Entry('a', 'b', count=0, note='x'), "'count'"),
        (lambda: Entry('a', 'b'), "'b' has no noise: give a 'note'"),
        (lambda: ledger().total('record', DELTA, 'twin'), "'zero-out', 'substitute' .got 'twin'"),
    ],
)
def test_wrong_entries(make, message):
    with pytest.raises(ValueError, match=message):
        make()
