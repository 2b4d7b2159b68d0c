"""The plan of a private build: how a budget is divided, and which budgets are refused."""

import pytest

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import BudgetError, LedgerError
from torch_geometric_cgt.pipeline import DifferentialPrivacy
from torch_geometric_cgt.pipeline.plan import STAGES, PrivatePlan, PublicNumbers
from torch_geometric_cgt.privacy import Ledger


def numbers(n=2485, c=7, shape=(5, 5)):
    return PublicNumbers(n, n, c, TreeShape.of(shape))


def test_a_stage_without_an_entry_has_no_total():
    ledger = PrivatePlan(numbers(), DifferentialPrivacy(10.0)).ledger()
    for stage in ledger.stages:
        rest = [entry for entry in ledger.entries if entry.stage != stage]
        with pytest.raises(LedgerError, match=stage):
            Ledger(ledger.stages, rest, ledger.sample).total('record', 1e-4)


@pytest.mark.parametrize('unit', ['record', 'edge', 'node'])
@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
def test_a_plan_spends_the_budget_and_not_more(unit, form):
    plan = PrivatePlan(numbers(20_000, 3), DifferentialPrivacy(8.0, unit=unit, form=form))
    total = plan.ledger().total(unit, plan.budget.delta)
    assert 0.97 * 8 < total.epsilon <= 8
    if unit != 'record':
        assert plan.sample is not None and plan.group('record') == (7 if unit == 'node' else 4)


@pytest.mark.parametrize(
    'n, c, epsilon, unit',
    [
        (2485, 7, 1.0, 'record'),  # Cora
        (2485, 7, 2.0, 'record'),
        (2485, 7, 4.0, 'record'),
        (2485, 7, 10.0, 'record'),
        (19717, 3, 4.0, 'record'),  # PubMed
        (19717, 3, 10.0, 'node'),
        (34493, 5, 10.0, 'node'),  # Physics
    ],
)
def test_budgets_with_a_signal_are_accepted(n, c, epsilon, unit):
    for form in ('histograms', 'dp_sgd'):
        plan = PrivatePlan(numbers(n, c), DifferentialPrivacy(epsilon, unit=unit, form=form))
        assert {entry.stage for entry in plan.entries()} == set(STAGES)
        assert plan.without_signal() is None
        assert plan.root_noise() < n / c**2  # the mean count of roots per token and label


def test_a_budget_that_leaves_the_model_nothing_but_noise_is_refused():
    """There are enough rows for clusters, but a node is in seven records."""

    def plan(epsilon, unit='node'):
        return PrivatePlan(numbers(), DifferentialPrivacy(epsilon, unit=unit, form='histograms'))

    assert plan(0.25).solver().plan(2485, 7).num_clusters == 7
    with pytest.raises(BudgetError, match=r'root tokens per label.*cells have 50.7.*at least 1.2$'):
        plan(0.25).entries()
    ledger = plan(1.2).ledger()
    sigma = next(e.noise.sigma for e in ledger.entries if e.name == 'root tokens per label')
    assert sigma < 1.2 * 2485 / 49  # the rule is an estimate of it
    assert plan(1.1).without_signal() and not plan(1.2).without_signal()
    with pytest.raises(BudgetError, match=r'mean of the rows of a label.*at least 0.22$'):
        plan(0.2, 'record').entries()


@pytest.mark.parametrize('epsilon', [1e-300, 1e-6])
def test_a_budget_that_cannot_be_divided_is_too_small(epsilon):
    with pytest.raises(BudgetError, match=r'too small for any signal.*use at least 0.22'):
        PrivatePlan(numbers(), DifferentialPrivacy(epsilon)).entries()


def test_a_budget_without_any_noise_is_too_large():
    with pytest.raises(BudgetError, match='epsilon is too large'):
        PrivatePlan(numbers(), DifferentialPrivacy(1e9)).entries()


def test_few_labels_are_no_reason_for_a_large_delta():
    plan = PrivatePlan(PublicNumbers(2000, 900, 4, TreeShape.of((5, 5))), DifferentialPrivacy(4.0))
    assert plan.budget.delta < 1 / 2000
    assert plan.ledger().total('record', plan.budget.delta).epsilon <= 4


def test_the_form_is_chosen_by_records_and_budget():
    def form(n, epsilon, **kwargs):
        return PrivatePlan(numbers(n), DifferentialPrivacy(epsilon, **kwargs)).form

    assert form(2485, 1.0) == 'histograms'
    assert form(200_000, 1.0) == 'dp_sgd'
    assert form(200_000, 1.0, form='histograms') == 'histograms'
    assert form(2485, 4.0) == 'dp_sgd' and form(2485, 4.0, unit='node') == 'histograms'
