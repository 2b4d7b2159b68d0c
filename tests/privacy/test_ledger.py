"""The ledger: what each entry costs per unit, their sum, calibration, and files."""

import json
import math
from pathlib import Path

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
from torch_geometric_cgt.privacy.accounting import (
    Loss,
    epsilon_of,
    gaussian_epsilon,
    substitution_epsilon_of,
)

DELTA = 1e-5
OLD = Path(__file__).parents[1] / 'recorded' / 'format_1'

STAGES = ['labels', 'projection', 'clustering', 'sequence model']
ROW = {'node': 1.0, 'attributes': 2**0.5, 'edge': 0.0, 'frozen_record': 1.0}
TREES = {'node': 7.0, 'attributes': 3.0, 'edge': 4.0, 'frozen_record': 1.0}


def ledger() -> Ledger:
    """All kinds of noise."""
    return Ledger(
        STAGES,
        [
            Entry('labels', 'histogram', ROW, DiscreteGaussian(8.0)),
            Entry.free('projection', 'random projection', 'it does not look at the data'),
            Entry('clustering', 'counts', ROW, DiscreteGaussian(6.0), count=4),
            Entry('clustering', 'sums', {unit: v / 2 for unit, v in ROW.items()}, Gaussian(3.0)),
            Entry('sequence model', 'DP-SGD', TREES, SampledGaussian(2.0, 0.02, 200)),
        ],
    )


def gaussian_ledger() -> Ledger:
    """The noise of queries alone."""
    changes = {'node': 5.0, 'attributes': 0.0, 'edge': 2.0, 'frozen_record': 5.0}
    return Ledger(
        ['labels', 'clustering', 'sequence model'],
        [
            Entry('labels', 'histogram', ROW, Gaussian(8.0)),
            Entry('clustering', 'counts', ROW, Gaussian(6.0), count=4),
            Entry('sequence model', 'edges', changes, Gaussian(12.0)),
        ],
    )


def distance(unit):
    """Of the results of the ledger above with and without one unit, by hand."""
    row, edges = ROW[unit], {'node': 5.0, 'attributes': 0.0, 'edge': 2.0}[unit]
    return math.sqrt((row / 8) ** 2 + 4 * (row / 6) ** 2 + (edges / 12) ** 2)


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
    total = ledger().total('frozen_record', DELTA)
    assert total.epsilon == pytest.approx(whole.get_epsilon_for_delta(DELTA), abs=5e-3)
    assert (total.unit, total.delta, total.accountant) == ('frozen_record', DELTA, 'pld')


@pytest.mark.parametrize('unit', ['node', 'attributes', 'edge'])
def test_gaussian_entries_compose_to_one_gaussian(unit):
    from dp_accounting.pld import privacy_loss_distribution as pld

    def one(sigma):
        return pld.from_gaussian_mechanism(sigma, value_discretization_interval=2e-5)

    total = gaussian_ledger().total(unit, DELTA)
    assert total.accountant == 'gaussian'
    assert total.epsilon == gaussian_epsilon(distance(unit), DELTA)
    changes = [(e.changes[unit] / e.noise.sigma, e.count) for e in gaussian_ledger().entries]
    parts = [one(1 / shift).self_compose(count) for shift, count in changes if shift]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    assert total.epsilon == pytest.approx(whole.get_epsilon_for_delta(DELTA), abs=1e-3)


def test_the_gaussian_entries_of_several_ledgers_compose_exactly():
    """Two releases of one source cost what one ledger with all entries costs."""
    first, second = gaussian_ledger(), gaussian_ledger()
    both = Ledger(first.stages, [*first.entries, *second.entries])
    found = both.total('node', DELTA).epsilon
    assert found == pytest.approx(
        gaussian_epsilon(math.sqrt(2) * distance('node'), DELTA), abs=1e-9
    )
    alone = first.total('node', DELTA).epsilon
    assert alone < found < 2 * alone


@pytest.mark.parametrize('unit', ['node', 'edge'])
def test_a_substitution_of_gaussian_entries_is_twice_the_distance(unit):
    found = gaussian_ledger().total(unit, DELTA, 'substitute')
    assert found.accountant == 'gaussian' and found.relation == 'substitute'
    assert found.epsilon == gaussian_epsilon(2 * distance(unit), DELTA)


def test_units_have_their_own_numbers():
    cost = {unit: ledger().total(unit, DELTA).epsilon for unit in TREES}
    assert cost['frozen_record'] < min(cost[unit] for unit in ('attributes', 'edge'))
    assert cost['edge'] < cost['node']
    only_trees = Ledger(['sequence model'], ledger().entries[-1:])
    assert cost['edge'] == only_trees.total('edge', DELTA).epsilon  # edges have no features
    exchanged = ledger().total('frozen_record', DELTA, 'substitute').epsilon
    assert exchanged > 1.5 * cost['frozen_record']


def test_an_entry_that_a_unit_does_not_change_costs_nothing():
    entry = gaussian_ledger().entries[0]
    assert entry.loss('edge') is None
    assert entry.loss('node') == Loss(Gaussian(8.0), 1.0)
    assert entry.loss('attributes').shift == 2**0.5
    assert gaussian_ledger().cost(entry, 'edge', DELTA) == 0.0
    rows = Ledger(['labels'], [entry]).total('edge', DELTA)
    assert (rows.epsilon, rows.accountant) == (0.0, 'none')


def test_a_unit_without_a_bound_has_no_total():
    given = Entry('labels', 'edges', {'edge': 2.0}, Gaussian(8.0))
    assert Ledger(['labels'], [given]).total('edge', DELTA).epsilon > 0
    for unit in ('node', 'attributes', 'frozen_record'):
        with pytest.raises(LedgerError, match=rf"'edges' has no bound.*one '{unit}'.*for edge"):
            Ledger(['labels'], [given]).total(unit, DELTA)
        with pytest.raises(LedgerError, match=rf"one '{unit}'"):
            Ledger(['labels'], [given, given]).to_dict(DELTA, [unit])
    unknown = Entry('labels', 'edges', noise=Gaussian(8.0))
    with pytest.raises(LedgerError, match='for no unit'):
        Ledger(['labels'], [unknown]).total('edge', DELTA)


@pytest.mark.parametrize('unit', ['node', 'attributes', 'edge'])
def test_rows_of_dp_sgd_that_change_are_substituted(unit):
    """A tree that contained the unit is still there, with other tokens."""
    entry = ledger().entries[-1]
    trees = Ledger(['sequence model'], [entry])
    loss = Loss(entry.noise, 1.0, int(TREES[unit]))
    found = trees.total(unit, DELTA).epsilon
    assert trees.replaces_rows(unit)
    assert found == substitution_epsilon_of([loss], DELTA)[0] > 1.5 * epsilon_of([loss], DELTA)[0]
    assert not gaussian_ledger().replaces_rows(unit)


def test_rows_of_dp_sgd_are_removed_with_a_frozen_record():
    entry = ledger().entries[-1]
    found = Ledger(['sequence model'], [entry]).total('frozen_record', DELTA).epsilon
    assert found == epsilon_of([Loss(entry.noise, 1.0, 1)], DELTA)[0]
    half = Entry('sequence model', 'DP-SGD', {'node': 1.5}, entry.noise)
    assert half.loss('node').group == 2  # rounded up


def test_calibration_to_changed_rows_pays_for_the_substitution():
    trees = Ledger(['sequence model'], ledger().entries[-1:])
    found = trees.calibrate(Budget(4.0, DELTA, 'edge'))
    assert 0.97 * 4 < found.total('edge', DELTA).epsilon <= 4
    noise = found.entries[0].noise
    assert epsilon_of([Loss(noise, 1.0, 4)], DELTA)[0] < 0.7 * 4


def test_a_stage_without_entry_leaves_no_total():
    part = Ledger(STAGES)
    part.add(Entry('labels', 'histogram', {'node': 1.0}, noise=Laplace(1.0)))
    assert part.missing == ['projection', 'clustering', 'sequence model']
    with pytest.raises(LedgerError, match=r'no entry.*: projection, clustering, sequence model'):
        part.total('node', DELTA)
    with pytest.raises(LedgerError, match=r'no entry'):
        part.calibrate(Budget(1.0, DELTA))
    whole = gaussian_ledger()
    whole.total('node', DELTA)
    whole.require('validation')
    with pytest.raises(LedgerError, match=r'validation'):
        whole.total('node', DELTA)


def test_an_entry_of_an_unknown_stage_is_refused():
    with pytest.raises(LedgerError, match=r"'sizes' belongs to stage 'splits'.*labels"):
        ledger().add(Entry('splits', 'sizes', noise=Laplace(1.0)))


@pytest.mark.parametrize('make', [ledger, gaussian_ledger])
def test_ledger_survives_json(make):
    before = make()
    content = json.loads(json.dumps(before.to_dict(DELTA, ['frozen_record', 'edge'])))
    after = Ledger.from_dict(content)
    assert after.entries == before.entries and after.stages == before.stages
    assert after.sample is None and content['sample'] is None
    assert [total['unit'] for total in content['totals']] == 2 * ['frozen_record'] + 2 * ['edge']
    assert not any('unit' in e or 'sensitivity' in e for e in content['entries'])
    cost = [entry['cost']['frozen_record'] for entry in content['entries']]
    assert max(cost) < content['totals'][0]['epsilon'] < sum(cost)
    for entry, stated in zip(before.entries, content['entries'], strict=True):
        assert stated['changes'] == dict(entry.changes)
        assert (stated['cost']['edge'] > 0) == (entry.changes.get('edge', 0) > 0)


@pytest.mark.parametrize(
    'edit, message',
    [
        (lambda c: c['totals'][0].update(epsilon=0.2), 'epsilon = 0.2 per .node.*was altered'),
        (lambda c: c['totals'][1].update(epsilon=0.2), 'epsilon = 0.2 per .node.*was altered'),
        (lambda c: c['entries'][0]['noise'].update(sigma=0.4), 'was altered'),
        (lambda c: c['entries'][2]['changes'].update(node=9.0), 'was altered'),
        (lambda c: c['entries'][2]['changes'].pop('node'), "no bound on its change by one 'node'"),
        (lambda c: c['entries'][2].pop('changes'), 'not a ledger.*without changes'),
        (lambda c: c['entries'][2].pop('count'), 'not a ledger.*count'),
        (lambda c: c['entries'][2]['changes'].update(node=-1.0), 'not a ledger.*finite'),
        (lambda c: c['entries'][2]['changes'].update(node=math.nan), 'not a ledger.*finite'),
        (lambda c: c['entries'][2]['changes'].update(planet=1.0), "not a ledger.*got 'planet'"),
        (lambda c: c['entries'].pop(), 'no entry.*sequence model'),
        (lambda c: c['entries'][0]['noise'].update(kind='wish'), "not a ledger.*got 'wish'"),
        (lambda c: c.pop('entries'), "not a ledger: KeyError: 'entries'"),
        (lambda c: c['totals'][0].update(unit='graph'), "not a ledger.*'graph'"),
    ],
)
def test_an_edited_ledger_is_found_out(edit, message):
    content = gaussian_ledger().to_dict(DELTA)
    edit(content)
    with pytest.raises(LedgerError, match=message):
        Ledger.from_dict(content)


@pytest.mark.parametrize('epsilon', [0.5, 4.0, 25.0])
@pytest.mark.parametrize('make', [ledger, gaussian_ledger])
def test_calibration_spends_the_budget_and_no_more(make, epsilon):
    unit = 'frozen_record' if make is ledger else 'node'
    found = make().calibrate(Budget(epsilon, DELTA, unit))
    total = found.total(unit, DELTA).epsilon
    assert 0.98 * epsilon < total <= epsilon
    assert [e.changes for e in found.entries] == [e.changes for e in make().entries]
    if make is ledger:
        assert found.entries[1] == ledger().entries[1]


def test_calibration_for_nodes_needs_more_noise():
    noise = [
        ledger().calibrate(Budget(4.0, DELTA, unit)).entries[-1].noise.noise_multiplier
        for unit in ('frozen_record', 'node')
    ]
    assert noise[1] > 2 * noise[0]


def test_shares_divide_the_concentrated_cost():
    entries = [
        Entry('a', 'sums', {'node': 2.0}, Gaussian(1.0), share=3.0),
        Entry('b', 'sums', {'node': 1.0}, Gaussian(1.0), count=4),
    ]
    first, second = Ledger(['a', 'b'], entries).calibrate(Budget(2.0, DELTA)).entries
    rho = [e.count * e.noise.concentrated(e.changes['node']) for e in (first, second)]
    assert rho[0] == pytest.approx(3 * rho[1])


def test_fixed_entries_keep_their_noise():
    spent = Entry('a', 'sums', {'node': 1.0}, Gaussian(4.0), fixed=True)
    rest = Entry('b', 'sums', {'node': 1.0}, Gaussian(4.0))
    found = Ledger(['a', 'b'], [spent, rest]).calibrate(Budget(2.0, DELTA))
    assert found.entries[0] == spent
    assert found.total('node', DELTA).epsilon == pytest.approx(2.0, rel=0.01)
    with pytest.raises(BudgetError, match=r'epsilon = 0.5 per node is not enough: \d'):
        Ledger(['a', 'b'], [spent, rest]).calibrate(Budget(0.5, DELTA))
    with pytest.raises(BudgetError, match=r'all are free or fixed'):
        Ledger(['a'], [spent]).calibrate(Budget(1.0, DELTA))


def test_what_costs_nothing_for_a_unit_is_not_calibrated_for_it():
    row = Entry('a', 'sums', ROW, Gaussian(4.0))
    with pytest.raises(BudgetError, match=r'No entry has noise that can be calibrated'):
        Ledger(['a'], [row]).calibrate(Budget(1.0, DELTA, 'edge'))
    edges = Entry('b', 'edges', {'edge': 2.0}, Gaussian(4.0))
    found = Ledger(['a', 'b'], [row, edges]).calibrate(Budget(1.0, DELTA, 'edge'))
    assert found.entries[0] == row  # the other entry gets the whole budget
    assert found.total('edge', DELTA).epsilon == pytest.approx(1.0, rel=0.01)


def test_entries_of_one_mechanism_are_recognised():
    entry = gaussian_ledger().entries[1]
    content = entry.to_dict()
    assert entry.is_same_as(Entry.from_dict(json.loads(json.dumps(content))))

    def edited(**changes):
        return Entry.from_dict({**content, **changes})

    assert entry.is_same_as(edited(noise=Gaussian(0.1).to_dict()))
    assert entry.is_same_as(edited(share=0.1))
    for other in (
        edited(changes={**ROW, 'node': 0.5}),
        edited(changes={'node': 1.0}),
        edited(count=3),
        edited(name='others'),
        edited(stage='labels'),
        edited(noise=DiscreteGaussian(6.0).to_dict()),
    ):
        assert not entry.is_same_as(other)


def old_ledgers():
    for path in sorted(OLD.glob('*/card.json')):
        privacy = json.loads(path.read_text())['privacy']
        if privacy.get('ledger'):
            yield pytest.param(privacy, id=path.parent.name)


@pytest.mark.parametrize('privacy', old_ledgers())
def test_ledgers_of_the_first_format_still_add_up(privacy):
    """With the rows, sensitivities and frozen samples of their time."""
    content = privacy['ledger']
    found = Ledger.from_dict(content)
    for stated in content['totals']:
        total = found.total(stated['unit'], stated['delta'], stated['relation'])
        assert total.epsilon == pytest.approx(stated['epsilon'], rel=2e-3)
    content['totals'][0]['epsilon'] /= 2
    with pytest.raises(LedgerError, match='was altered'):
        Ledger.from_dict(content)


def test_entries_of_old_ledgers_are_priced_by_their_rows():
    def old(rows, sensitivity=1.0):
        noise = Gaussian(3.0)
        return Entry('a', 'sums', {}, noise, unit=rows, sensitivity=sensitivity)

    sample = CappedSample(2, 2)
    assert old('record').loss('node', sample) == Loss(Gaussian(3.0), 1.0, 7)
    assert old('record', 2.0).loss('edge', sample) == Loss(Gaussian(3.0), 2.0, 4)
    assert old('node').loss('edge') is None and old('node').loss('record').group == 1
    with pytest.raises(LedgerError, match='CappedSample'):
        old('record').loss('node')
    with pytest.raises(LedgerError, match="'attributes' is not a unit of a ledger before"):
        old('record').loss('attributes', sample)
    content = json.loads(json.dumps(old('record', 2.0).to_dict()))
    assert (content['unit'], content['sensitivity']) == ('record', 2.0)
    assert Entry.from_dict(content) == old('record', 2.0)


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: Gaussian(0.0), "'sigma' must be positive and finite .got 0.0"),
        (lambda: Laplace(float('nan')), "'scale'"),
        (lambda: SampledGaussian(1.0, 1.5, 10), "'sampling_probability' must not exceed 1"),
        (lambda: SampledGaussian(1.0, 0.5, 1.5), "'steps' must be an integer"),
        (lambda: Entry('a', 'b', {'graph': 1.0}, note='x'), "got 'graph'"),
        (lambda: Entry('a', 'b', {'record': 1.0}, note='x'), "got 'record'"),
        (lambda: Entry('a', 'b', {'node': -1.0}, note='x'), "change of 'node' must be finite"),
        (lambda: Entry('a', 'b', {'node': math.inf}, note='x'), 'got inf'),
        (lambda: Entry('a', 'b', sensitivity=-1.0, note='x'), "'sensitivity'"),
        (lambda: Entry('a', 'b', share=0.0, note='x'), "'share'"),
        (lambda: Entry('a', 'b', count=0, note='x'), "'count'"),
        (lambda: Entry('a', 'b'), "'b' has no noise: give a 'note'"),
        (lambda: ledger().total('node', DELTA, 'twin'), "'zero-out', 'substitute' .got 'twin'"),
    ],
)
def test_wrong_entries(make, message):
    with pytest.raises(ValueError, match=message):
        make()
