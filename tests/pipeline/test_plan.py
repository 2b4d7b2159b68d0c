"""The plan of a private build: how a budget is divided, and which budgets are refused."""

import pytest

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import BudgetError, LedgerError
from torch_geometric_cgt.pipeline import DifferentialPrivacy
from torch_geometric_cgt.pipeline.plan import STAGES, PrivatePlan, PublicNumbers
from torch_geometric_cgt.privacy import UNITS, Ledger, SampledGaussian, StableSample


def numbers(n=2485, c=7, shape=(5, 5)):
    return PublicNumbers(n, n, c, TreeShape.of(shape))


def test_a_stage_without_an_entry_has_no_total():
    ledger = PrivatePlan(numbers(), DifferentialPrivacy(10.0)).ledger()
    for stage in ledger.stages:
        rest = [entry for entry in ledger.entries if entry.stage != stage]
        with pytest.raises(LedgerError, match=stage):
            Ledger(ledger.stages, rest).total('node', 1e-4)


def promise(unit, form, epsilon=8.0, **changes):
    """With a bound on the degree where there must be one."""
    if unit == 'node' and form in ('histograms', 'dp_sgd'):
        changes = {'max_degree': 3, **changes}
    return DifferentialPrivacy(epsilon, unit=unit, form=form, **changes)


@pytest.mark.parametrize('unit', UNITS)
@pytest.mark.parametrize('form', ['mixing', 'histograms', 'rows'])
def test_a_plan_spends_the_budget_and_not_more(unit, form):
    plan = PrivatePlan(numbers(20_000, 3), promise(unit, form))
    if (unit, form) == ('edge', 'rows'):
        with pytest.raises(BudgetError, match='all are free or fixed'):  # no edge is read
            plan.ledger()
        return
    total = plan.ledger().total(unit, plan.budget.delta)
    assert 0.97 * 8 < total.epsilon <= 8


@pytest.mark.slow
@pytest.mark.parametrize('unit', UNITS)
def test_a_plan_of_gradients_spends_the_budget_and_not_more(unit):
    plan = PrivatePlan(numbers(20_000, 3), promise(unit, 'dp_sgd'))
    total = plan.ledger().total(unit, plan.budget.delta)
    assert 0.97 * 8 < total.epsilon <= 8


@pytest.mark.parametrize('unit', UNITS)
@pytest.mark.parametrize('form', ['mixing', 'histograms', 'dp_sgd', 'rows'])
def test_every_entry_that_a_unit_changes_has_a_bound_for_it(unit, form):
    plan = PrivatePlan(numbers(20_000, 3), promise(unit, form))
    priced = [entry for entry in plan.entries() if entry.noise is not None]
    assert all(unit in entry.changes for entry in priced)
    changed = [entry.name for entry in priced if entry.changes[unit] > 0]
    assert bool(changed) == ((unit, form) != ('edge', 'rows'))
    if unit != 'edge':
        assert {'labels and splits', 'decoded sums', 'root tokens per label'} <= set(changed)


@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
def test_models_of_trees_pay_for_all_trees_that_change(form):
    def plan(unit, **changes):
        return PrivatePlan(numbers(20_000, 3), promise(unit, form, 100.0, **changes))

    assert plan('frozen_record').changed_trees == 1 and plan('frozen_record').sample is None
    sample = StableSample(2, 2, 3)
    assert plan('edge').changed_trees == sample.trees_per_edge == 10
    assert plan('attributes').changed_trees == sample.trees_per_attributes == 7
    assert plan('node').changed_trees == sample.trees_per_node == 16
    assert plan('node', max_degree=5, max_parents=1).changed_trees == 13
    for unit in ('node', 'attributes', 'edge'):
        found = plan(unit)
        entries = {e.name: e for e in found.entries() if e.stage == 'sequence model'}
        for entry in entries.values():
            per_tree = 1.0 if isinstance(entry.noise, SampledGaussian) else 2**0.5
            assert entry.changes == {unit: pytest.approx(per_tree * found.changed_trees)}
    (row,) = (e for e in plan('frozen_record').entries() if e.name == 'root tokens per label')
    assert row.changes == {'frozen_record': 1.0}


def test_only_what_is_learned_from_trees_has_a_bound_on_degrees():
    def plan(**changes):
        return PrivatePlan(numbers(), DifferentialPrivacy(10.0, **changes))

    assert plan().max_degree is None and plan(max_degree=5).max_degree is None  # all nodes
    assert plan(form='histograms', max_degree=5).max_degree == 5
    assert plan(form='histograms', unit='edge', max_degree=5).max_degree is None


@pytest.mark.parametrize(
    'n, c, epsilon, unit',
    [
        (2485, 7, 1.0, 'node'),  # Cora
        (2485, 7, 4.0, 'node'),
        (2485, 7, 4.0, 'attributes'),
        (2485, 7, 1.0, 'frozen_record'),
        (2485, 7, 10.0, 'frozen_record'),
        (19717, 3, 4.0, 'node'),  # PubMed
        (34493, 5, 10.0, 'node'),  # Physics
        (34493, 5, 1.0, 'edge'),
    ],
)
def test_budgets_with_a_signal_are_accepted(n, c, epsilon, unit):
    for form in ('mixing', 'rows', *(('histograms', 'dp_sgd') if unit == 'frozen_record' else ())):
        plan = PrivatePlan(numbers(n, c), DifferentialPrivacy(epsilon, unit=unit, form=form))
        assert {entry.stage for entry in plan.entries()} == set(STAGES)
        assert plan.without_signal() is None
        assert plan.root_noise() < n / c**2  # the mean count of roots per token and label


def test_a_budget_that_leaves_the_model_nothing_but_noise_is_refused():
    """There are enough rows for clusters, but a node is in many trees."""

    def plan(epsilon, **changes):
        changes = {'form': 'histograms', 'max_degree': 2, **changes}
        return PrivatePlan(numbers(), DifferentialPrivacy(epsilon, **changes))

    assert plan(1.0).solver().plan(2485, 7).num_clusters >= 7
    with pytest.raises(BudgetError, match=r'root tokens per label.*cells have 50.7.*at least \S+$'):
        plan(1.0).entries()
    enough = plan(1.0).smallest_useful()
    ledger = plan(enough).ledger()
    sigma = next(e.noise.sigma for e in ledger.entries if e.name == 'root tokens per label')
    assert sigma < 1.2 * 2485 / 49  # the rule is an estimate of it
    assert plan(0.95 * enough).without_signal() and not plan(enough).without_signal()
    with pytest.raises(BudgetError, match=r'mean of the rows of a label.*at least 0.21$'):
        plan(0.2, form='mixing').entries()


@pytest.mark.parametrize('epsilon', [1e-300, 1e-6])
def test_a_budget_that_cannot_be_divided_is_too_small(epsilon):
    with pytest.raises(BudgetError, match=r'too small for any signal.*use at least 0.21'):
        PrivatePlan(numbers(), DifferentialPrivacy(epsilon)).entries()


def test_a_budget_without_any_noise_is_too_large():
    with pytest.raises(BudgetError, match='epsilon is too large'):
        PrivatePlan(numbers(), DifferentialPrivacy(1e9)).entries()


def test_few_labels_are_no_reason_for_a_large_delta():
    plan = PrivatePlan(PublicNumbers(2000, 900, 4, TreeShape.of((5, 5))), DifferentialPrivacy(4.0))
    assert plan.budget.delta < 1 / 2000
    assert plan.ledger().total('node', plan.budget.delta).epsilon <= 4


def test_the_form_is_chosen_by_unit_records_and_budget():
    def form(n, epsilon, **kwargs):
        return PrivatePlan(numbers(n), DifferentialPrivacy(epsilon, **kwargs)).form

    for unit in ('node', 'attributes', 'edge'):
        assert form(2485, 1.0, unit=unit) == form(200_000, 10.0, unit=unit) == 'mixing'
    frozen = {'unit': 'frozen_record'}
    assert form(2485, 1.0, **frozen) == 'histograms'
    assert form(200_000, 1.0, **frozen) == form(2485, 4.0, **frozen) == 'dp_sgd'
    assert form(200_000, 1.0, form='histograms', **frozen) == 'histograms'


def test_features_and_labels_of_the_unit_edge_are_stated_as_not_covered():
    plan = PrivatePlan(numbers(), DifferentialPrivacy(1.0, unit='edge', k=20))
    assert (plan.k, plan.most_clusters, plan.has_private_codebook) == (20, 2485 // 20, False)
    notes = [e.note for e in plan.entries() if e.stage in ('labels', 'clustering', 'centres')]
    assert all('does not protect features and labels' in note for note in notes)
    assert any('mean of at least 20 nodes' in note for note in notes)
    assert PrivatePlan(numbers(), DifferentialPrivacy(1.0)).k is None


def test_noise_of_a_given_width_has_its_price():
    plan = PrivatePlan(numbers(), DifferentialPrivacy(4.0)).at_noise(6.0)
    ledger = plan.ledger(6.0)
    priced = [e for e in ledger.entries if e.noise is not None]
    assert all(e.noise.sigma == pytest.approx(6 * e.changes['node']) for e in priced)
    total = ledger.total('node', plan.budget.delta).epsilon
    assert plan.config.epsilon == pytest.approx(total, rel=1e-6)
