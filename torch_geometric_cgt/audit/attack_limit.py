r"""The most that an attack may show under an (epsilon, delta) claim."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib.util import find_spec

from torch_geometric_cgt.audit.epsilon_bounds import largest_bound
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.release.card import Card

MAX_EPSILON = 1.0  # where the card claims nothing
COVERING = ('record', 'node')  # the units whose claims also hold for one record
DELTAS = tuple(10.0**-i for i in range(3, 10))


@dataclass(frozen=True)
class Limit:
    r"""The most that an attack may show, as an :math:`(\epsilon, \delta)`.

    If the presence of a record changes the probability of no event by more
    than a factor :math:`e^\epsilon` and an addend :math:`\delta`, then
    no attack on that record exceeds the values of the methods below.

    Args:
        epsilon (float): The largest privacy loss.
        delta (float): The probability with which it may be exceeded.
        origin (str): Where both come from, as a sentence.
        is_claim (bool, optional): Whether the card or the auditor states the
            limit; otherwise it is a convention. (default: :obj:`True`)
        unit (str, optional): The unit of the claim.
            (default: :obj:`"record"`)
        ledger (Ledger, optional): The mechanisms behind the claim.
            (default: :obj:`None`)
    """

    epsilon: float
    delta: float
    origin: str
    is_claim: bool = True
    unit: str = 'record'
    ledger: Ledger | None = None

    @classmethod
    def of(cls, card: Card, max_epsilon: float | None = None) -> Limit:
        r"""The limit that a card claims, or a convention where it claims none.
        A claim for edges does not count: the attacks target records, which
        have features, a label and several edges.

        Args:
            card (Card): What the release guarantees.
            max_epsilon (float, optional): A limit that replaces the one of the
                card. (default: :obj:`None`)
        """
        delta = card.delta or 0.0
        if max_epsilon is not None:
            if not (max_epsilon >= 0 and math.isfinite(max_epsilon)):
                raise ValueError(f"'max_epsilon' must be a number >= 0 (got {max_epsilon})")
            origin = f'asked for: epsilon = {max_epsilon:.3g}, delta = {delta:.2g}'
            return cls(max_epsilon, delta, origin)
        if card.epsilon is not None and card.protects in COVERING:
            stated = f'epsilon = {card.epsilon:.3g}, delta = {delta:.2g} for a {card.protects}'
            origin, ledger = f'the claim of the card: {stated}', _ledger_of(card)
            return cls(card.epsilon, delta, origin, unit=card.protects, ledger=ledger)
        what = 'no differential privacy'
        if card.epsilon is not None:
            what = f'differential privacy for the {card.protects} only'
        return cls(
            MAX_EPSILON,
            0.0,
            f'a convention, since the card claims {what}: an attack counts as a leak if '
            f'epsilon = {MAX_EPSILON:g} would rule it out',
            is_claim=False,
        )

    def at(self, delta: float) -> Limit:
        r"""The same claim at another delta, computed from its ledger.

        Args:
            delta (float): The failure probability.
        """
        if delta == self.delta or not self.is_claim:
            return self
        if self.ledger is None:
            if delta > self.delta:  # a larger delta makes the claim weaker
                return self
            raise ValueError(
                f'A claim at delta = {self.delta:.2g} says nothing about delta = {delta:.2g} '
                f'unless its ledger is known'
            )
        epsilon = self.ledger.total(self.unit, delta).epsilon
        origin = (
            f'{self.origin}. At delta = {delta:.2g}, where canaries can refute more, its ledger '
            f'gives epsilon = {epsilon:.3g}'
        )
        return replace(self, epsilon=epsilon, delta=delta, origin=origin)

    def scope(self, attacked: str) -> str:
        r"""What an attack on one unit leaves out of a claim for another unit, as
        a sentence; empty where it leaves out nothing.

        Args:
            attacked (str): The unit of the attack.
        """
        if not self.is_claim or self.unit == attacked or self.unit == 'record':
            return ''
        return (
            f'The attack is on one {attacked}: its features, its label and its own computation '
            f'graph. The claim is for a {self.unit}. It also covers the computation graphs of '
            f'other nodes in which the {self.unit} occurs; these are not attacked.'
        )

    def highest(self, without: float) -> float:
        r"""The largest probability of an event with a record in the data.

        Both the event and its complement are bounded: the result is the
        smaller one of :math:`e^\epsilon q + \delta` and :math:`1 - e^{-\epsilon}
        (1 - \delta - q)`.

        Args:
            without (float): Its probability :math:`q` without the record.
        """
        direct = math.exp(min(self.epsilon, 700)) * without + self.delta
        complement = 1 - math.exp(-self.epsilon) * (1 - self.delta - without)
        return min(1.0, direct, complement)

    def highest_gain(self, low: float, high: float) -> float:
        r"""The largest amount by which a record in the data may raise the
        probability of an event.

        Args:
            low (float): The smallest probability of the event without the
                record.
            high (float): The largest one.
        """
        worst = (1 - self.delta) / (1 + math.exp(min(self.epsilon, 700)))  # both bounds meet
        return max(self.highest(q) - q for q in (low, high, min(max(worst, low), high)))

    @property
    def max_auc(self) -> float:
        r"""The largest area under the curve of :meth:`highest`. It is reached by
        a mechanism that reveals a record with probability :math:`\delta` and
        applies randomised response with :math:`\epsilon` otherwise.
        """
        return 1 - (1 - self.delta) ** 2 / (1 + math.exp(min(self.epsilon, 700)))


def sharpest(limit: Limit, num_canaries: int, confidence: float = 0.95) -> Limit:
    r"""The same claim at the delta where canaries have the best chance to refute
    it: the largest possible bound exceeds the claim by most, or falls short of
    it by least.

    A mechanism with noise has an epsilon for every delta. At the delta of a
    card, close to :math:`1 / n`, even many canaries show little, since the
    claim allows a mechanism to reveal one of them. At a smaller delta the
    claimed epsilon is somewhat larger, and the bound can be much larger. The
    choice depends on public numbers only.

    Args:
        limit (Limit): The claim. Without a ledger it is returned as it is.
        num_canaries (int): The number of canaries.
        confidence (float, optional): The confidence of the audit.
            (default: :obj:`0.95`)
    """
    if limit.ledger is None:
        return limit
    known = [limit, *(limit.at(delta) for delta in DELTAS if delta < limit.delta)]
    return max(known, key=lambda x: largest_bound(num_canaries, x.delta, confidence) - x.epsilon)


def _ledger_of(card: Card) -> Ledger | None:
    r"""The ledger of a card, if it has one and its totals can be computed."""
    if card.ledger is None or find_spec('dp_accounting') is None:
        return None
    return Ledger.from_dict(card.ledger, verify=False)
