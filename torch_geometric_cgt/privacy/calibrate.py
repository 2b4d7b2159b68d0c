r"""The noise that a budget needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from scipy.optimize import brentq

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.privacy.budget import Budget
from torch_geometric_cgt.privacy.entry import Entry

PRECISION = 1e-3  # of the common cost
SMALLEST, LARGEST = 1e-12, 1e9  # costs that are tried


def find_noise(
    entries: Sequence[Entry], budget: Budget, total: Callable[[Sequence[Entry]], float]
) -> list[Entry]:
    r"""Finds the largest common cost at which a budget holds.

    Args:
        entries (list[Entry]): The mechanisms, with their shares.
        budget (Budget): What may be spent.
        total (callable): Returns the :math:`\epsilon` of some entries.
    """
    shares = sum(entry.share for entry in entries if _is_sought(entry))
    if shares == 0:
        raise BudgetError('There is no entry whose noise could be sought: all are free or fixed')

    def at(rho: float) -> list[Entry]:
        return [_at_cost(entry, rho * entry.share / shares) for entry in entries]

    known: dict[float, float] = {}

    def spent(rho: float) -> float:
        if rho not in known:
            known[rho] = total(at(rho))
        return known[rho]

    low = high = budget.concentrated  # right for records and Gaussian noise, a start for others
    while spent(low) > budget.epsilon:
        high, low = low, low / 4
        if low < SMALLEST:
            raise BudgetError(
                f'epsilon = {budget.epsilon:g} per {budget.unit} is not enough: '
                f'{spent(low):.4g} are spent by entries whose noise is fixed'
            )
    while low == high or spent(high) < budget.epsilon:
        low, high = high, high * 4
        if high > LARGEST:
            raise BudgetError(
                f'epsilon = {budget.epsilon:g} per {budget.unit} cannot be spent by these '
                f'entries, whatever the noise is'
            )
    root = math.exp(
        brentq(
            lambda x: spent(math.exp(x)) - budget.epsilon,
            math.log(low),
            math.log(high),
            xtol=PRECISION,
        )
    )
    spent(root * (1 - PRECISION))  # hardly below the budget, where the root is just above it
    return at(max(rho for rho, epsilon in known.items() if epsilon <= budget.epsilon))


def _is_sought(entry: Entry) -> bool:
    return entry.noise is not None and not entry.fixed


def _at_cost(entry: Entry, rho: float) -> Entry:
    if entry.noise is None or entry.fixed:
        return entry
    return replace(entry, noise=entry.noise.at_cost(rho / entry.count, entry.sensitivity))
