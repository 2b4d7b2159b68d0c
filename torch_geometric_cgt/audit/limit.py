r"""What a claim leaves to an attacker: the thresholds of all attacks come from here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Protocol

from torch_geometric_cgt.privacy.ledger import Ledger

MAX_EPSILON = 1.0
ATTACKED = ('record', 'node')  # claims for these units hold for one record


class Claim(Protocol):
    r"""What a privacy card claims, of differential privacy."""

    @property
    def epsilon(self) -> float | None: ...

    @property
    def delta(self) -> float | None: ...

    @property
    def protects(self) -> str: ...


@dataclass(frozen=True)
class Limit:
    r"""The most that an attack may show, as an :math:`(\epsilon, \delta)`.

    If the presence of a record changes the probability of no event by more
    than a factor :math:`e^\epsilon` and an addend :math:`\delta`, then
    no attack on that record does better than the methods below say.

    Args:
        epsilon (float): The largest privacy loss.
        delta (float): The probability with which it may be exceeded.
        origin (str): Where both come from, as a sentence.
        is_claim (bool, optional): Whether the card or the auditor asks for
            it; else it is a convention. (default: :obj:`True`)
        unit (str, optional): What it is claimed for.
            (default: :obj:`"record"`)
        ledger (Ledger, optional): The mechanisms that the claim rests on.
            (default: :obj:`None`)
    """

    epsilon: float
    delta: float
    origin: str
    is_claim: bool = True
    unit: str = 'record'
    ledger: Ledger | None = None

    @classmethod
    def of(cls, card: Claim, max_epsilon: float | None = None) -> Limit:
        r"""The limit that a release states, or the convention for those that
        state none. A claim for edges is none here: what is attacked are
        records, each of which has features, a label and several edges.

        Args:
            card (Card): What the release guarantees.
            max_epsilon (float, optional): A limit to hold the release to in
                the place of its own. (default: :obj:`None`)
        """
        delta = card.delta or 0.0
        if max_epsilon is not None:
            if not (max_epsilon >= 0 and math.isfinite(max_epsilon)):
                raise ValueError(f"'max_epsilon' must be a number >= 0 (got {max_epsilon})")
            origin = f'asked for: epsilon = {max_epsilon:.3g}, delta = {delta:.2g}'
            return cls(max_epsilon, delta, origin)
        if card.epsilon is not None and card.protects in ATTACKED:
            stated = f'epsilon = {card.epsilon:.3g}, delta = {delta:.2g} for a {card.protects}'
            origin, ledger = f'the claim of the card: {stated}', _ledger_of(card)
            return cls(card.epsilon, delta, origin, unit=card.protects, ledger=ledger)
        what = 'no differential privacy'
        if card.epsilon is not None:
            what = f'it for the {card.protects} only'
        return cls(
            MAX_EPSILON,
            0.0,
            f'a convention, as the card claims {what}: an attack that epsilon = {MAX_EPSILON:g} '
            f'would rule out is called a leak',
            is_claim=False,
        )

    def at(self, delta: float) -> Limit:
        r"""The same claim at another delta: what the mechanisms of its ledger
        cost there.

        Args:
            delta (float): The failure probability.
        """
        if delta == self.delta or not self.is_claim:
            return self
        if self.ledger is None:
            if delta > self.delta:  # which allows for more
                return self
            raise ValueError(
                f'A claim at delta = {self.delta:.2g} says nothing of delta = {delta:.2g} without '
                f'the ledger that it rests on'
            )
        epsilon = self.ledger.total(self.unit, delta).epsilon
        origin = (
            f'{self.origin}. At delta = {delta:.2g}, where canaries show more, its ledger comes to '
            f'epsilon = {epsilon:.3g}'
        )
        return replace(self, epsilon=epsilon, delta=delta, origin=origin)

    def scope(self, attacked: str) -> str:
        r"""What an attack on one unit leaves out of a claim for another one, as
        a sentence; empty where it leaves out nothing.

        Args:
            attacked (str): The unit that is attacked.
        """
        if not self.is_claim or self.unit == attacked or self.unit == 'record':
            return ''
        return (
            f'What is attacked is one {attacked}, its features, label and own computation graph. '
            f'The claim is for a {self.unit}, with all computation graphs that it is in: it '
            f'covers the {attacked}, and what others hold of it is not attacked here.'
        )

    def highest(self, without: float) -> float:
        r"""The largest probability of an event with a record in the data.

        Both the event and its contrary are bounded, so that it is the least of
        :math:`e^\epsilon q + \delta` and :math:`1 - e^{-\epsilon} (1 - \delta
        - q)`.

        Args:
            without (float): Its probability :math:`q` without the record.
        """
        direct = math.exp(min(self.epsilon, 700)) * without + self.delta
        contrary = 1 - math.exp(-self.epsilon) * (1 - self.delta - without)
        return min(1.0, direct, contrary)

    def highest_gain(self, low: float, high: float) -> float:
        r"""The largest amount by which a record in the data may raise the
        probability of an event.

        Args:
            low (float): The least that its probability without the record is.
            high (float): The most that it is.
        """
        worst = (1 - self.delta) / (1 + math.exp(min(self.epsilon, 700)))  # both bounds meet
        return max(self.highest(q) - q for q in (low, high, min(max(worst, low), high)))

    @property
    def max_auc(self) -> float:
        r"""The largest area under the curve of :meth:`highest`: with
        probability :math:`\delta` a record gives itself away, else randomised
        response of :math:`\epsilon` is the best that there is to see.
        """
        return 1 - (1 - self.delta) ** 2 / (1 + math.exp(min(self.epsilon, 700)))


def _ledger_of(card: Claim) -> Ledger | None:
    r"""The ledger of a card, where it has one and totals can be computed."""
    content = getattr(card, 'ledger', None)
    if content is None or find_spec('dp_accounting') is None:
        return None
    return Ledger.from_dict(content, verify=False)
