r"""The most that an attack may show under an (epsilon, delta) claim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec

from torch_geometric_cgt.audit.epsilon_bounds import ClaimFamily, Family, GaussianFamily
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.release.card import Card

MAX_EPSILON = 1.0  # where the card claims nothing
DELTAS = (1e-2, 1e-4, 1e-6, 1e-8)  # at which the curve of a claim is computed
RECORD = ('frozen_record', 'record')  # one unit, by its present and its former name
# For each attacked unit, the claims that cover it, and how many protected units it takes to make
# that difference: another attribute, or one edge less, is a node that is removed and added again.
COVERED_BY = {
    'node': {'node': 1},
    'attributes': {'attributes': 1, 'node': 2},
    'edge': {'edge': 1, 'node': 2},
    'frozen_record': {**dict.fromkeys(RECORD, 1), 'node': 1},
}


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
            (default: :obj:`"node"`)
        ledger (Ledger, optional): The mechanisms behind the claim.
            (default: :obj:`None`)
    """

    epsilon: float
    delta: float
    origin: str
    is_claim: bool = True
    unit: str = 'node'
    ledger: Ledger | None = None

    @classmethod
    def of(cls, card: Card, max_epsilon: float | None = None, attacked: str = 'node') -> Limit:
        r"""The limit that a card claims for an attacked unit, or a convention where
        it claims none.

        Args:
            card (Card): What the release guarantees.
            max_epsilon (float, optional): A limit that replaces the one of the
                card. (default: :obj:`None`)
            attacked (str, optional): The unit of the attack: :obj:`"node"`,
                :obj:`"attributes"`, :obj:`"edge"` or :obj:`"frozen_record"`.
                (default: :obj:`"node"`)
        """
        delta = card.delta or 0.0
        if max_epsilon is not None:
            if not (max_epsilon >= 0 and math.isfinite(max_epsilon)):
                raise ValueError(f"'max_epsilon' must be a number >= 0 (got {max_epsilon})")
            origin = f'asked for: epsilon = {max_epsilon:.3g}, delta = {delta:.2g}'
            return cls(max_epsilon, delta, origin, unit=attacked)
        if attacked not in COVERED_BY:
            raise ValueError(f"'attacked' must be one of {list(COVERED_BY)} (got '{attacked}')")
        times = COVERED_BY[attacked].get(card.protects or '', 0)
        if card.epsilon is not None and times:
            return cls._claimed(card, times)
        what = 'no differential privacy'
        if card.epsilon is not None:
            what = f'differential privacy for the unit {_plain(card.protects)} only'
        return cls(
            MAX_EPSILON,
            0.0,
            f'a convention, since the card claims {what}: an attack counts as a leak if '
            f'epsilon = {MAX_EPSILON:g} would rule it out',
            is_claim=False,
            unit=attacked,
        )

    @classmethod
    def _claimed(cls, card: Card, times: int) -> Limit:
        r"""The claim of a card for one or two of its units."""
        epsilon, delta, unit = card.epsilon, card.delta or 0.0, card.protects or ''
        assert epsilon is not None
        stated = f'epsilon = {epsilon:.3g}, delta = {delta:.2g} for the unit {_plain(unit)}'
        origin = f'the claim of the card: {stated}'
        if times == 1:
            return cls(epsilon, delta, origin, unit=unit, ledger=_ledger_of(card))
        delta = min(1.0, (1 + math.exp(min(epsilon, 700))) * delta)
        origin += f'; the attack takes two of them, epsilon = {2 * epsilon:.3g}'
        return cls(2 * epsilon, delta, origin, unit=unit)

    def family(self) -> tuple[Family, float]:
        r"""The form of the claim that canaries test, and its parameter. A ledger
        gives an :math:`\epsilon` for every :math:`\delta`; the Gaussian curve that
        lies above all of them is tested. Otherwise, only one pair is known.
        """
        if self.ledger is None or not 0 < self.delta < 1:
            return ClaimFamily(self.delta if self.is_claim else 0.0), self.epsilon
        pairs = [(self.epsilon, self.delta)]
        pairs += [(self.ledger.total(self.unit, delta).epsilon, delta) for delta in DELTAS]
        mu = max(GaussianFamily(delta).parameter(epsilon) for epsilon, delta in pairs)
        return GaussianFamily(self.delta), mu

    def scope(self, attacked: str) -> str:
        r"""What an attack on one unit leaves out of a claim for another unit, as
        a sentence; empty where it leaves out nothing.

        Args:
            attacked (str): The unit of the attack.
        """
        if not self.is_claim or self.unit == attacked or attacked not in RECORD:
            return ''
        if self.unit in RECORD:
            return ''
        return (
            f'The attack is on one record: its features, its label and its own computation '
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


def _ledger_of(card: Card) -> Ledger | None:
    r"""The ledger of a card, if it has one and its totals can be computed."""
    if card.ledger is None or find_spec('dp_accounting') is None:
        return None
    return Ledger.from_dict(card.ledger, verify=False)


def _plain(unit: str | None) -> str:
    return f"'{(unit or 'none').replace('_', ' ')}'"
