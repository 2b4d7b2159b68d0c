r"""The privacy ledger: every mechanism that reads the data, and their composed cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scipy.optimize import brentq

from torch_geometric_cgt.errors import BudgetError, LedgerError
from torch_geometric_cgt.privacy.accounting import Budget, epsilon_of, substitution_epsilon_of
from torch_geometric_cgt.privacy.entries import Entry, Loss
from torch_geometric_cgt.privacy.noise import SampledGaussian
from torch_geometric_cgt.privacy.units import (
    LEGACY_UNITS,
    UNITS,
    CappedSample,
)

RELATIONS = ('zero-out', 'substitute')
COARSE = 2.0  # factor of the grid of losses during calibration
TOLERANCE = 1.001  # for a total that another version of the accountant recomputes
PRECISION = 1e-3  # of the common cost
SMALLEST, LARGEST = 1e-12, 1e9  # search range of the common cost


@dataclass(frozen=True)
class Total:
    r"""The composed cost of all entries, for one unit.

    Args:
        unit (str): The unit that neighbouring datasets differ in.
        epsilon (float): The privacy loss.
        delta (float): The failure probability.
        accountant (str): The accountant that proves it, :obj:`"pld"` or
            :obj:`"rdp"` (:obj:`"none"` if nothing is spent).
        relation (str): How neighbouring datasets differ: one unit is removed
            (:obj:`"zero-out"`) or replaced (:obj:`"substitute"`).
    """

    unit: str
    epsilon: float
    delta: float
    accountant: str
    relation: str = 'zero-out'


class Ledger:
    r"""All mechanisms of a build, composed to one :math:`(\epsilon, \delta)`
    per unit.

    A ledger is created with the stages that a build will run. It has a total
    only if every stage has an entry.

    Args:
        stages (list[str]): The stages of the build.
        entries (list[Entry], optional): The mechanisms. (default: :obj:`()`)
        sample (CappedSample, optional): The frozen sample of edges. Totals per
            node or per edge need it. (default: :obj:`None`)
    """

    def __init__(
        self,
        stages: Iterable[str],
        entries: Iterable[Entry] = (),
        sample: CappedSample | None = None,
    ) -> None:
        self.stages: list[str] = []
        self.entries: list[Entry] = []
        self.sample = sample
        for stage in stages:
            self.require(stage)
        self.add(*entries)

    def require(self, stage: str) -> None:
        r"""Adds a stage, which then must have an entry."""
        if stage not in self.stages:
            self.stages.append(stage)

    def add(self, *entries: Entry) -> Ledger:
        r"""Adds entries. Their stages must be stages of this ledger."""
        for entry in entries:
            if entry.stage not in self.stages:
                raise LedgerError(
                    f"'{entry.name}' belongs to stage '{entry.stage}', which is not among those "
                    f"of this ledger ({', '.join(self.stages)}): call 'require' first"
                )
            self.entries.append(entry)
        return self

    @property
    def missing(self) -> list[str]:
        r"""The stages without an entry."""
        paid = {entry.stage for entry in self.entries}
        return [stage for stage in self.stages if stage not in paid]

    def total(self, unit: str, delta: float, relation: str = 'zero-out') -> Total:
        r"""The composed cost of all entries.

        Args:
            unit (str): The unit, see
                :meth:`~torch_geometric_cgt.privacy.units.check_unit`.
            delta (float): The failure probability.
            relation (str, optional): :obj:`"zero-out"` if the unit is removed,
                :obj:`"substitute"` if it is replaced by another one.
                (default: :obj:`"zero-out"`)
        """
        Budget(1.0, delta)
        if relation not in RELATIONS:
            raise ValueError(
                f"'relation' must be one of {', '.join(map(repr, RELATIONS))} (got {relation!r})"
            )
        self._check_complete()
        losses = self._losses(self.entries, unit)
        if relation == 'substitute' or self.replaces_rows(unit):
            epsilon, accountant = substitution_epsilon_of(losses, delta)
        else:
            epsilon, accountant = epsilon_of(losses, delta)
        return Total(unit, epsilon, delta, accountant, relation)

    def replaces_rows(self, unit: str) -> bool:
        r"""Whether removing a unit replaces rows of DP-SGD by other rows: a tree
        that contained the unit is sampled again without it. The rows of a frozen
        record are removed instead.

        Args:
            unit (str): The unit.
        """
        sampled = [e for e in self.entries if isinstance(e.noise, SampledGaussian) and not e.unit]
        return unit != 'frozen_record' and any(entry.changes.get(unit) for entry in sampled)

    def _check_complete(self) -> None:
        if self.missing:
            raise LedgerError(
                f'These stages read the data, but have no entry in the ledger: '
                f'{", ".join(self.missing)}. There is no guarantee without them'
            )

    def _losses(self, entries: Iterable[Entry], unit: str) -> list[Loss]:
        return [loss for entry in entries if (loss := entry.loss(unit, self.sample))]

    def cost(self, entry: Entry, unit: str, delta: float) -> float:
        r"""The :math:`\epsilon` of one entry alone. The sum of these costs is
        larger than the total.
        """
        return Ledger([entry.stage], [entry], self.sample).total(unit, delta).epsilon

    def calibrate(self, budget: Budget) -> Ledger:
        r"""A ledger with the smallest noise that meets a budget.

        Each entry gets a concentrated cost :math:`\rho` in proportion to its
        share. A root search over the common factor of these costs brings the
        total up to the budget. Fixed entries keep their noise.

        Args:
            budget (Budget): The budget and its unit.
        """
        self._check_complete()

        compose = substitution_epsilon_of if self.replaces_rows(budget.unit) else epsilon_of

        def total(entries: Sequence[Entry]) -> float:
            return compose(self._losses(entries, budget.unit), budget.delta, COARSE)[0]

        entries = find_noise(self.entries, budget, total)
        return Ledger(self.stages, entries, self.sample)

    def to_dict(self, delta: float, units: Sequence[str] = ('node',)) -> dict[str, Any]:
        r"""All entries with their costs and the totals, for a JSON file.

        Args:
            delta (float): The failure probability of the totals.
            units (list[str], optional): The units of the totals.
                (default: :obj:`["node"]`)
        """
        return {
            'stages': list(self.stages),
            'sample': None if self.sample is None else asdict(self.sample),
            'entries': [
                {
                    **entry.to_dict(),
                    'cost': {unit: self.cost(entry, unit, delta) for unit in units},
                }
                for entry in self.entries
            ],
            'totals': [
                asdict(self.total(unit, delta, relation))
                for unit in units
                for relation in RELATIONS
            ],
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], verify: bool = True) -> Ledger:
        r"""The inverse of :meth:`to_dict`.

        Args:
            content (dict): The result of :meth:`to_dict`.
            verify (bool, optional): Whether to recompute the totals and compare
                them with the stated ones. (default: :obj:`True`)
        """
        try:
            sample = content['sample'] and CappedSample(**content['sample'])
            entries = [Entry.from_dict(entry) for entry in content['entries']]
            ledger = cls(content['stages'], entries, sample or None)
            stated = [Total(**total) for total in content['totals']]
            for total in stated:
                if total.unit not in UNITS + LEGACY_UNITS:
                    raise ValueError(f"unknown unit '{total.unit}'")
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f'This is not a ledger: {type(error).__name__}: {error}') from error
        for total in stated if verify else []:
            found = ledger.total(total.unit, total.delta, total.relation)
            if found.epsilon > total.epsilon * TOLERANCE:
                raise LedgerError(
                    f"The ledger states epsilon = {total.epsilon:.4g} per '{total.unit}', but its "
                    f'entries cost {found.epsilon:.4g}: it was altered'
                )
        return ledger

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(stages={self.stages}, entries={len(self.entries)})'


def find_noise(
    entries: Sequence[Entry], budget: Budget, total: Callable[[Sequence[Entry]], float]
) -> list[Entry]:
    r"""Finds the largest common cost whose total is within the budget.

    Args:
        entries (list[Entry]): The mechanisms, with their shares.
        budget (Budget): The budget.
        total (callable): Returns the :math:`\epsilon` of a list of entries.
    """
    shares = sum(entry.share for entry in entries if _is_calibrated(entry, budget.unit))
    if shares == 0:
        raise BudgetError('No entry has noise that can be calibrated: all are free or fixed')

    def entries_at(rho: float) -> list[Entry]:
        return [_at_cost(entry, rho * entry.share / shares, budget.unit) for entry in entries]

    known: dict[float, float] = {}

    def spent(rho: float) -> float:
        if rho not in known:
            known[rho] = total(entries_at(rho))
        return known[rho]

    low = high = budget.concentrated  # exact for Gaussian noise per record, else a first guess
    while spent(low) > budget.epsilon:
        high, low = low, low / 4
        if low < SMALLEST:
            raise BudgetError(
                f'epsilon = {budget.epsilon:g} per {budget.unit} is not enough: '
                f'{spent(low):.4g} is already spent by entries with fixed noise'
            )
    while low == high or spent(high) < budget.epsilon:
        low, high = high, high * 4
        if high > LARGEST:
            raise BudgetError(
                f'epsilon = {budget.epsilon:g} per {budget.unit} cannot be spent by these '
                f'entries: they cost less even with almost no noise'
            )
    root = math.exp(
        brentq(
            lambda x: spent(math.exp(x)) - budget.epsilon,
            math.log(low),
            math.log(high),
            xtol=PRECISION,
        )
    )
    spent(root * (1 - PRECISION))  # stays within the budget if the root slightly exceeds it
    return entries_at(max(rho for rho, epsilon in known.items() if epsilon <= budget.epsilon))


def _is_calibrated(entry: Entry, unit: str) -> bool:
    changes = entry.changes.get(unit, 0.0) > 0 or bool(entry.unit)
    return entry.noise is not None and not entry.fixed and changes


def _at_cost(entry: Entry, rho: float, unit: str) -> Entry:
    change = entry.changes.get(unit, entry.sensitivity)
    if entry.noise is None or entry.fixed or not change:
        return entry
    if isinstance(entry.noise, SampledGaussian):
        rho, change = rho / math.ceil(change) ** 2, 1.0
    return replace(entry, noise=entry.noise.at_cost(rho / entry.count, change))
