r"""Reads the ledger of a file: its numbers are bounded before an accountant runs, and its totals
are recomputed.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.accounting import Budget
from torch_geometric_cgt.privacy.entries import Loss, loss_interval, mixture_losses
from torch_geometric_cgt.privacy.ledger import TOLERANCE, Ledger
from torch_geometric_cgt.privacy.noise import DiscreteGaussian, SampledGaussian
from torch_geometric_cgt.utils.limits import (
    MAX_CHANGE,
    MAX_DISCRETE_NOISE,
    MAX_ENTRIES,
    MAX_GROUP,
    MAX_MIXTURES,
    MAX_NOISE,
    MAX_RUNS,
    MAX_SAMPLED,
    MAX_STAGES,
    MAX_STEPS,
    MAX_TEXT,
    MAX_TOTALS,
    MIN_DELTA,
    MIN_NOISE,
    MIN_PROBABILITY,
)

# What an accountant and the types of a ledger raise for numbers that no build has.
REFUSED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
ENTRY_LIMITS = {
    'count': (1, MAX_RUNS),
    'sensitivity': (MIN_NOISE, MAX_NOISE),
    'share': (0.0, math.inf),
}
NOISE_LIMITS = {  # by the name of a parameter; others are widths
    'sampling_probability': (MIN_PROBABILITY, 1.0),
    'steps': (1, MAX_STEPS),
}


def read_ledger(content: Any, budget: Budget | None = None, verify: bool = True) -> Ledger:
    r"""Reads the result of :meth:`Ledger.to_dict` from a file that may have been
    altered. Raises :class:`LedgerError` if the entries cost more than the ledger
    states, or more than a budget.

    Args:
        content (dict): The content of the file.
        budget (Budget, optional): The budget of the build that the ledger
            belongs to. (default: :obj:`None`)
        verify (bool, optional): Whether to recompute the totals. This needs
            :obj:`dp-accounting` and is left out without it.
            (default: :obj:`True`)
    """
    try:
        check_limits(content)
        ledger = Ledger.from_dict(content, verify=False)
        _check_work(ledger, content['totals'])
        if verify and find_spec('dp_accounting') is not None:
            Ledger.from_dict(content)
    except REFUSED as error:
        raise LedgerError(f'This is not a ledger: {type(error).__name__}: {error}') from error
    if budget is not None:
        _check_budget(content['totals'], budget)
    return ledger


def check_limits(content: Any) -> None:
    r"""Raises an error unless all numbers of a ledger are within limits that an
    accountant can handle in a second. See :mod:`torch_geometric_cgt.utils.limits`.

    Args:
        content (dict): The content of a file.
    """
    for name, most in (('entries', MAX_ENTRIES), ('stages', MAX_STAGES), ('totals', MAX_TOTALS)):
        if not isinstance(content[name], list) or len(content[name]) > most:
            raise ValueError(
                f"'{name}' must be a list of at most {most} (got {content[name]!r:.60})"
            )
    for total in content['totals']:
        _check_number('delta', total['delta'], MIN_DELTA, 1.0)
        _check_number('epsilon', total['epsilon'], 0.0, math.inf)
    for entry in content['entries']:
        where = f' of {entry["name"]!r:.60}'
        for name, value in entry.items():
            if isinstance(value, str) and len(value) > MAX_TEXT:
                raise ValueError(f"'{name:.40}'{where} has more than {MAX_TEXT} characters")
            if name in ENTRY_LIMITS:
                _check_number(f"'{name}'{where}", value, *ENTRY_LIMITS[name])
            if name in ('cost', 'changes', 'noise') and value is not None:
                _check_numbers(name, value, where)
    for name, value in (content['sample'] or {}).items():
        _check_number(f"'{name:.40}' of the sample", value, 0, MAX_GROUP)


def _check_numbers(part: str, values: dict[str, Any], where: str) -> None:
    for name, value in values.items():
        if name != 'kind':
            limits = (MIN_NOISE, MAX_NOISE) if part == 'noise' else (0.0, math.inf)
            _check_number(f"'{name:.40}'{where}", value, *NOISE_LIMITS.get(name, limits))


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    if not is_number or not low <= value <= high:
        raise ValueError(f'{name} must be a number from {low:g} to {high:g} (got {value!r:.60})')


def _check_work(ledger: Ledger, totals: list[dict[str, Any]]) -> None:
    r"""Bounds what an accountant computes for all totals together."""
    most = {
        'entries of all totals': MAX_ENTRIES,
        'runs': MAX_RUNS,
        'mechanisms with sampling': MAX_SAMPLED,
        'steps': MAX_STEPS,
        'privacy losses of groups': MAX_MIXTURES,
        'widths of discrete noise': MAX_DISCRETE_NOISE,
    }
    work = dict.fromkeys(most, 0.0)
    for total in totals:
        found = [entry.loss(total['unit'], ledger.sample) for entry in ledger.entries]
        losses = [loss for loss in found if loss is not None]
        for loss in losses:
            noise = loss.noise
            _check_number(f'The number of rows per {total["unit"]}', loss.group, 0, MAX_GROUP)
            _check_number('The change in widths of the noise', _relative(loss), 0.0, MAX_CHANGE)
            work['entries of all totals'] += 1
            work['runs'] += loss.count
            if isinstance(noise, SampledGaussian):
                work['mechanisms with sampling'] += 1
                work['steps'] += noise.steps * loss.count
                interval = loss_interval(losses, total['delta'])
                work['privacy losses of groups'] += mixture_losses(noise, loss.group, interval)
            elif isinstance(noise, DiscreteGaussian) and loss.shift == 1:
                work['widths of discrete noise'] += noise.sigma
    for name, value in work.items():
        _check_number(f'The sum of the {name}', value, 0, most[name])


def _relative(loss: Loss) -> float:
    r"""The change by one unit, in widths of the noise."""
    widths = [getattr(loss.noise, name, None) for name in ('sigma', 'scale', 'noise_multiplier')]
    return loss.shift / next(width for width in widths if width is not None)


def _check_budget(totals: list[dict[str, Any]], budget: Budget) -> None:
    for total in totals:
        if (
            total['unit'] == budget.unit
            and math.isclose(total['delta'], budget.delta, rel_tol=1e-9)
            and total['epsilon'] <= budget.epsilon * TOLERANCE
        ):
            return
    raise LedgerError(
        f'The ledger does not keep the budget, epsilon = {budget.epsilon:g} at delta = '
        f'{budget.delta:g} per {budget.unit} (it states {totals}): it was altered. If this is the '
        f'ledger of an interrupted build, build again with force_reload=True'
    )
