r"""The cost of several builds of one source together, and what a budget leaves for the next one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scipy.optimize import brentq

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.accounting import Budget
from torch_geometric_cgt.privacy.entries import Entry
from torch_geometric_cgt.privacy.ledger import Ledger

# Of the logarithm of the noise of the next build, relative to the last one.
WIDEST, STEP, PRECISION = 8.0, 1.0, 0.01


@dataclass(frozen=True)
class Cost:
    r"""The cost of one build, with everything that is needed to compose it with
    other builds.

    Args:
        unit (str): The unit that the build protects.
        epsilon (float): The privacy loss of the build alone.
        delta (float): The failure probability of the build.
        ledger (dict): The stages, the sample and the entries of its ledger.
    """

    unit: str
    epsilon: float
    delta: float
    ledger: dict[str, Any]

    @classmethod
    def of(cls, ledger: Ledger, unit: str, delta: float) -> Cost:
        r"""The cost of a ledger.

        Args:
            ledger (Ledger): The ledger of a build.
            unit (str): The unit that the build protects.
            delta (float): The failure probability of the build.
        """
        content = {
            'stages': list(ledger.stages),
            'sample': None if ledger.sample is None else asdict(ledger.sample),
            'entries': [entry.to_dict() for entry in ledger.entries],
        }
        return cls(unit, ledger.total(unit, delta).epsilon, delta, content)

    def read_ledger(self) -> Ledger:
        r"""The ledger. Raises :class:`LedgerError` if this version cannot read it."""
        return Ledger.from_dict({**self.ledger, 'totals': []}, verify=False)


def compose(costs: Sequence[Cost], delta: float) -> float:
    r"""The :math:`\epsilon` of several builds together, at a given :math:`\delta`.

    The entries of all ledgers are composed as those of one ledger. This is much
    less than the sum for noise of Gaussian type. Ledgers that cannot be merged,
    because they describe different samples of edges, are composed one by one,
    and their :math:`\epsilon` and :math:`\delta` are added. For a ledger that
    this version cannot read, the stated :math:`\epsilon` and :math:`\delta` are
    added. If the :math:`\delta` of such builds use up the given one, the result
    is infinite.

    Args:
        costs (list[Cost]): The builds. All must have the same unit.
        delta (float): The failure probability of all builds together.
    """
    if len(units := {cost.unit for cost in costs}) > 1:
        raise ValueError(f'Costs per {" and per ".join(sorted(units))} cannot be composed')
    merged: dict[str, list[Ledger]] = {}
    unknown: list[Cost] = []
    for cost in costs:
        try:
            ledger = cost.read_ledger()
            for entry in ledger.entries:
                entry.loss(cost.unit, ledger.sample)  # raises an error without a price for the unit
        except (LedgerError, ValueError):
            unknown.append(cost)
            continue
        merged.setdefault(json.dumps(cost.ledger['sample'], sort_keys=True), []).append(ledger)
    rest = delta - sum(cost.delta for cost in unknown)
    if rest < 0 or (merged and rest == 0):
        return math.inf
    epsilon = sum(cost.epsilon for cost in unknown)
    for ledgers in merged.values():
        epsilon += _merge(ledgers).total(costs[0].unit, rest / len(merged)).epsilon
    return epsilon


def left(costs: Sequence[Cost], limit: Budget) -> float:
    r"""The largest :math:`\epsilon` of one more build within a limit.

    The next build is assumed to have the mechanisms of the last one, with more
    noise or less, and the :math:`\delta` of the limit. Without an earlier build,
    the whole limit is left.

    Args:
        costs (list[Cost]): The earlier builds.
        limit (Budget): The limit of all builds together.
    """
    if not costs:
        return limit.epsilon
    if compose(costs, limit.delta) >= limit.epsilon:
        return 0.0
    known: dict[float, tuple[float, float]] = {}  # by width: excess of all builds, cost of the next

    def excess(log_width: float) -> float:
        if log_width not in known:
            further = _widened(costs[-1], math.exp(log_width), limit.delta)
            together = compose([*costs, further], limit.delta)
            known[log_width] = together - limit.epsilon, further.epsilon
        return known[log_width][0]

    low = high = 0.0
    while excess(low) <= 0 and low > -WIDEST:
        low -= STEP
    while excess(high) > 0 and high < WIDEST:
        high += STEP
    if excess(low) > 0 >= excess(high):
        brentq(excess, low, high, xtol=PRECISION)
    return max((epsilon for above, epsilon in known.values() if above <= 0), default=0.0)


def _widened(cost: Cost, factor: float, delta: float) -> Cost:
    r"""A build like another one with wider noise. If the ledger cannot be read, the cost of the
    build is divided.
    """
    try:
        ledger = cost.read_ledger()
        entries = [
            entry
            if entry.noise is None
            else replace(
                entry, noise=entry.noise.at_cost(entry.noise.concentrated(1.0) / factor**2, 1.0)
            )
            for entry in ledger.entries
        ]
        return Cost.of(Ledger(ledger.stages, entries, ledger.sample), cost.unit, delta)
    except (LedgerError, ValueError):
        return replace(cost, epsilon=cost.epsilon / factor, delta=0.0)


def _merge(ledgers: Iterable[Ledger]) -> Ledger:
    r"""One ledger with the entries of all. Equal entries are one entry with more runs, which is
    faster to compose.
    """
    stages: list[str] = []
    entries: dict[str, Entry] = {}
    sample = None
    for ledger in ledgers:
        stages += [stage for stage in ledger.stages if stage not in stages]
        sample = ledger.sample
        for entry in ledger.entries:
            key = json.dumps({**entry.to_dict(), 'count': None, 'fixed': None}, sort_keys=True)
            known = entries.get(key)
            count = entry.count + (known.count if known is not None else 0)
            entries[key] = replace(entry, count=count) if entry.noise is not None else entry
    return Ledger(stages, entries.values(), sample)
