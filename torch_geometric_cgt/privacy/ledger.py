r"""The privacy ledger: every mechanism that touches the data, and their common cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scipy.optimize import brentq

from torch_geometric_cgt.errors import BudgetError, LedgerError
from torch_geometric_cgt.privacy.accounting import Loss, epsilon_of, substitution_epsilon_of
from torch_geometric_cgt.privacy.budget import Budget
from torch_geometric_cgt.privacy.noise import Noise, SampledGaussian, noise_from_dict
from torch_geometric_cgt.privacy.units import CappedSample, check_unit, group_size

RELATIONS = ('zero-out', 'substitute')
COARSE = 2.0  # the grid of losses while noise is sought
TOLERANCE = 1.001  # of a total that is computed again, maybe by another version
PRECISION = 1e-3  # of the common cost
SMALLEST, LARGEST = 1e-12, 1e9  # costs that are tried


@dataclass(frozen=True)
class Entry:
    r"""One mechanism that touches the data, or the reason why a stage does not.

    Args:
        stage (str): The stage of the build that it belongs to.
        name (str): What is computed, for a reader.
        unit (str, optional): What the rows are that the sensitivity speaks of:
            :obj:`"record"` (one computation graph), :obj:`"node"` (its features
            and its label), or :obj:`"edge"`. (default: :obj:`"record"`)
        sensitivity (float, optional): How far the vector that noise is added
            to moves when one row is left out: an :math:`L_2` norm, for
            :class:`~torch_geometric_cgt.privacy.Laplace` an :math:`L_1` norm,
            for DP-SGD the clipping norm. (default: :obj:`1.0`)
        noise (Noise, optional): The noise. :obj:`None` is for a stage that
            does not look at the data; then :obj:`note` must say why.
            (default: :obj:`None`)
        count (int, optional): How often it runs. (default: :obj:`1`)
        share (float, optional): Its part of the budget, relative to others,
            when noise is sought. (default: :obj:`1.0`)
        fixed (bool, optional): Whether its noise stays as it is when noise is
            sought, because it has run already, say. (default: :obj:`False`)
        note (str, optional): What else a reader should know.
            (default: :obj:`""`)
    """

    stage: str
    name: str
    unit: str = 'record'
    sensitivity: float = 1.0
    noise: Noise | None = None
    count: int = 1
    share: float = 1.0
    fixed: bool = False
    note: str = ''

    def __post_init__(self) -> None:
        check_unit(self.unit)
        for name in ('sensitivity', 'share'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"'{name}' must be positive and finite (got {value!r})")
        if self.count != int(self.count) or self.count < 1:
            raise ValueError(f"'count' must be a positive integer (got {self.count!r})")
        if self.noise is None and not self.note:
            raise ValueError(
                f"'{self.name}' has no noise: give a 'note' that says why it is free, e.g. "
                f'that it does not look at the data'
            )

    @classmethod
    def free(cls, stage: str, name: str, why: str) -> Entry:
        r"""A stage that costs nothing, because it does not look at the data or
        looks at private results only.
        """
        return cls(stage, name, note=why)

    def loss(self, unit: str, sample: CappedSample | None = None) -> Loss | None:
        r"""What an accountant has to know, for one unit; :obj:`None` if nothing.

        Args:
            unit (str): What is left out of neighbouring data.
            sample (CappedSample, optional): The frozen sample.
                (default: :obj:`None`)
        """
        if self.noise is None:
            return None
        group = group_size(self.unit, unit, sample)
        return Loss(self.noise, self.sensitivity, group, self.count) if group else None

    def is_same_as(self, other: Entry) -> bool:
        r"""Whether two entries speak of the same mechanism on the same rows,
        however wide its noise is.

        Args:
            other (Entry): The other one.
        """
        return self._mechanism() == other._mechanism()

    def _mechanism(self) -> tuple[Any, ...]:
        own = (self.stage, self.name, self.unit, self.sensitivity, self.count, self.note)
        if isinstance(self.noise, SampledGaussian):
            return *own, self.noise.kind, self.noise.sampling_probability, self.noise.steps
        return *own, None if self.noise is None else self.noise.kind

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content['noise'] = None if self.noise is None else self.noise.to_dict()
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Entry:
        r"""The inverse of :meth:`to_dict`; further keys are ignored."""
        fields = {name: content[name] for name in cls.__dataclass_fields__}
        if fields['noise'] is not None:
            fields['noise'] = noise_from_dict(fields['noise'])
        return cls(**fields)


@dataclass(frozen=True)
class Total:
    r"""What all entries cost together, for one unit.

    Args:
        unit (str): What is left out of neighbouring data.
        epsilon (float): The privacy loss.
        delta (float): The failure probability.
        accountant (str): What proves it, :obj:`"pld"` or :obj:`"rdp"`
            (:obj:`"none"` where nothing is spent).
        relation (str): How neighbours differ: one unit is left out
            (:obj:`"zero-out"`), or exchanged (:obj:`"substitute"`).
    """

    unit: str
    epsilon: float
    delta: float
    accountant: str
    relation: str = 'zero-out'


class Ledger:
    r"""All mechanisms of a build, composed to one :math:`(\epsilon, \delta)`
    per unit.

    A ledger is made with the stages that a build will run. As long as one of
    them has no entry, there is no total.

    Args:
        stages (list[str]): The stages of the build.
        entries (list[Entry], optional): The mechanisms. (default: :obj:`()`)
        sample (CappedSample, optional): The frozen sample of edges, needed for
            totals per node or per edge. (default: :obj:`None`)
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
        r"""Demands an entry for a stage that is going to run."""
        if stage not in self.stages:
            self.stages.append(stage)

    def add(self, *entries: Entry) -> Ledger:
        r"""Writes entries down; their stages must have been announced."""
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
        r"""What all entries cost together.

        Args:
            unit (str): What is left out: :obj:`"record"`, :obj:`"edge"` or
                :obj:`"node"`, see :meth:`~torch_geometric_cgt.privacy.units.group_size`.
            delta (float): The failure probability.
            relation (str, optional): :obj:`"zero-out"`, or :obj:`"substitute"`
                where the unit is exchanged for another one, or where trees are
                unrolled again without it. (default: :obj:`"zero-out"`)
        """
        Budget(1.0, delta, unit)
        if relation not in RELATIONS:
            raise ValueError(
                f"'relation' must be one of {', '.join(map(repr, RELATIONS))} (got {relation!r})"
            )
        self._check_complete()
        compose = epsilon_of if relation == 'zero-out' else substitution_epsilon_of
        epsilon, accountant = compose(self._losses(self.entries, unit), delta)
        return Total(unit, epsilon, delta, accountant, relation)

    def _check_complete(self) -> None:
        if self.missing:
            raise LedgerError(
                f'These stages touch the data, but have no entry in the ledger: '
                f'{", ".join(self.missing)}. There is no guarantee without them'
            )

    def _losses(self, entries: Iterable[Entry], unit: str) -> list[Loss]:
        return [loss for entry in entries if (loss := entry.loss(unit, self.sample))]

    def cost(self, entry: Entry, unit: str, delta: float) -> float:
        r"""The :math:`\epsilon` of one entry on its own. Costs do not add up to
        the total, which is less than their sum.
        """
        return epsilon_of(self._losses([entry], unit), delta)[0]

    def calibrate(self, budget: Budget) -> Ledger:
        r"""A ledger with the noise that a budget needs.

        Each entry gets a part of the budget in proportion to its share (of the
        concentrated cost :math:`\rho`, in which Gaussian mechanisms add up), and
        the total is brought up to the budget by bisection. Entries that are
        fixed stay as they are.

        Args:
            budget (Budget): What may be spent, for which unit.
        """
        self._check_complete()

        def total(entries: Sequence[Entry]) -> float:
            return epsilon_of(self._losses(entries, budget.unit), budget.delta, COARSE)[0]

        entries = find_noise(self.entries, budget, total)
        return Ledger(self.stages, entries, self.sample)

    def to_dict(self, delta: float, units: Sequence[str] = ('record',)) -> dict[str, Any]:
        r"""All of it with its totals, for a JSON file.

        Args:
            delta (float): The failure probability of the totals.
            units (list[str], optional): The units of the totals.
                (default: :obj:`["record"]`)
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
            'totals': [asdict(self.total(unit, delta)) for unit in units],
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], verify: bool = True) -> Ledger:
        r"""The inverse of :meth:`to_dict`.

        Args:
            content (dict): What :meth:`to_dict` gave.
            verify (bool, optional): Whether totals are computed again and
                compared with those stated. (default: :obj:`True`)
        """
        try:
            sample = content['sample'] and CappedSample(**content['sample'])
            entries = [Entry.from_dict(entry) for entry in content['entries']]
            ledger = cls(content['stages'], entries, sample or None)
            stated = [Total(**total) for total in content['totals']]
            for total in stated:
                check_unit(total.unit)
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
