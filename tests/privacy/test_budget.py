import pytest

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.privacy import (
    Budget,
    Entry,
    Gaussian,
    Ledger,
)

DELTA = 1e-5


@pytest.mark.parametrize(
    'epsilon, delta, message',
    [
        (0.0, 1e-5, "'epsilon' must be positive .*got 0.0"),
        (float('inf'), 1e-5, "'epsilon'"),
        (1.0, 0.0, "'delta' must lie between 0 and 1 .got 0.0"),
        (1.0, 1.5, "'delta'"),
        (1.0, 0.01, r"'delta' must not exceed 1 / n = 0.001 for 1000 rows .got 0.01"),
    ],
)
def test_wrong_budgets(epsilon, delta, message):
    with pytest.raises(BudgetError, match=message):
        Budget.of(epsilon, delta, 1000)


@pytest.mark.parametrize('value', ['a', True, [1.0]])
def test_budgets_are_numbers(value):
    with pytest.raises(BudgetError, match="'epsilon' must be a number"):
        Budget(value, 1e-5)
    with pytest.raises(BudgetError, match="'delta' must be a number"):
        Budget(1.0, value)


def test_budgets_that_cannot_be_spent_or_divided():
    assert Budget(1e-6, 1e-4).concentrated > 0  # delta pays
    with pytest.raises(BudgetError, match=r'too small compared with delta = 0.0001 to be divided'):
        Budget(1e-6, 1e-4).part(0.5)
    assert Budget(1.0, 1e-4).part(1.0) == Budget(1.0, 1e-4)
    with pytest.raises(BudgetError, match='both are too small'):
        _ = Budget(1e-13, 1e-13).concentrated
    with pytest.raises(BudgetError, match='epsilon is too large'):
        _ = Budget(1e9, 1e-4).concentrated


def test_budgets():
    assert Budget.of(1.0, None, 1000).delta < 1e-3
    assert Budget.of(1.0, 0.01, 1000, accept_large_delta=True).delta == 0.01
    for epsilon in [0.1, 1.0, 30.0]:
        sigma = Gaussian(1.0).at_cost(Budget(epsilon, DELTA).concentrated, 1.0)
        spent = Ledger(['a'], [Entry('a', 'sums', noise=sigma)]).total('record', DELTA).epsilon
        assert spent == pytest.approx(epsilon, rel=1e-3)
