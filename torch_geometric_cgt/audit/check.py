r"""The result of an audit: checks with one of four verdicts, and the strongest attack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch_geometric_cgt.audit.estimates import Estimate

FORMAT = 2  # of the JSON file
NOTHING = 'nothing found'
WITHIN = 'found, within the limit'
ABOVE = 'above the limit'
UNCHECKED = 'not checked'
VERDICTS = (NOTHING, WITHIN, ABOVE, UNCHECKED)
AREA = 'area under the curve'  # the end of the names of some checks
NOTICE = (
    'Do not publish this audit. It contains exact statistics of the source without any noise. The '
    'promise of the release does not cover them. It is for the owner of the data only.'
)


class TooFewError(ValueError):
    r"""There are too few records for a check, which is then not made."""


@dataclass(frozen=True)
class Check:
    r"""One verdict of an audit.

    Args:
        name (str): What is checked.
        verdict (str): One of :obj:`"nothing found"`, :obj:`"found, within the
            limit"`, :obj:`"above the limit"` and :obj:`"not checked"`.
        value (float, optional): What was measured; :obj:`None` if nothing was.
        says (str): What the value means, in sentences for a reader who does
            not know the code. For :obj:`"not checked"`, the reason.
        threshold (float, optional): The limit of the value.
            (default: :obj:`None`)
        origin (str, optional): Where the limit comes from, or why there is
            none. (default: :obj:`""`)
        low (float, optional): The lower end of the confidence interval of the
            value. (default: :obj:`None`)
        high (float, optional): Its upper end. (default: :obj:`None`)
        details (dict, optional): Further measurements, for a JSON file.
    """

    name: str
    verdict: str
    value: float | None
    says: str
    threshold: float | None = None
    origin: str = ''
    low: float | None = None
    high: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"'verdict' must be one of {VERDICTS} (got '{self.verdict}')")
        if (self.verdict == UNCHECKED) and not self.says:
            raise ValueError(f"'{self.name}' was not checked: 'says' must give the reason")
        if self.verdict != UNCHECKED and self.value is None:
            raise ValueError(f"'{self.name}' has the verdict '{self.verdict}', but no value")

    @classmethod
    def unchecked(cls, name: str, reason: str) -> Check:
        r"""A check that could not be made, and why."""
        return cls(name, UNCHECKED, None, reason)

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def verdict(found: bool, above: bool) -> str:
    r"""The verdict of a check that was made.

    Args:
        found (bool): Whether the attack found anything that chance does not
            explain.
        above (bool): Whether that exceeds the limit.
    """
    return ABOVE if above else WITHIN if found else NOTHING


@dataclass(frozen=True)
class Accusation:
    r"""An attack that points at members: how many it finds, and how many others it
    accuses wrongly.

    Args:
        attack (str): The name of the attack.
        group (str): The records that it is measured on.
        found (Estimate): The share of members that are accused.
        accused (Estimate): The share of others that are accused.
        whom (str, optional): Who is found. (default: :obj:`"members"`)
    """

    attack: str
    group: str
    found: Estimate
    accused: Estimate
    whom: str = 'members'

    @property
    def epsilon(self) -> float:
        r"""The privacy loss that the attack proves: the logarithm of the smallest
        share that is found divided by the largest share that is accused, by the
        intervals of both. It compares attacks with different rates.
        """
        return math.log(self.found.low / self.accused.high) if self.is_found else 0.0

    @property
    def is_found(self) -> bool:
        r"""Whether more members than others are accused, beyond chance."""
        return self.found.low > self.accused.high

    @property
    def ratio(self) -> float:
        r"""The same ratio without intervals, for attacks that prove nothing."""
        return self.found.value / max(self.accused.value, 1e-9) if self.found.value else 0.0

    def sentence(self) -> str:
        r"""What the attack does, in people."""
        says = (
            f'It finds {_percent(self.found.value)} of {self.whom} while wrongly '
            f'accusing {_percent(self.accused.value)}'
        )
        return f'{says}.' if self.is_found else f'{says}, which chance can explain.'

    def to_dict(self) -> dict[str, Any]:
        r"""All fields and the privacy loss, for a JSON file."""
        return {**asdict(self), 'epsilon': self.epsilon}


def strongest(accusations: Sequence[Accusation]) -> Accusation | None:
    r"""The attack that proves the largest privacy loss. If none proves any, the one
    with the largest ratio of found to accused among those on all records.

    Args:
        accusations (list[Accusation]): The attacks.
    """
    if not accusations:
        return None
    best = max(accusations, key=lambda a: a.epsilon)
    if best.epsilon > 0:
        return best
    rest = [a for a in accusations if a.group == 'all' and a.accused.value > 0]
    return max(rest or accusations, key=lambda a: a.ratio)


@dataclass(frozen=True)
class Audit:
    r"""What an audit found.

    Args:
        card (dict): The card of the release.
        checks (list[Check]): The checks.
        details (dict): What was measured, by the name of the check.
        settings (dict): The arguments of the audit.
        accusations (list[Accusation], optional): All attacks that point at
            members. (default: :obj:`()`)
    """

    card: dict[str, Any]
    checks: list[Check]
    details: dict[str, Any]
    settings: dict[str, Any]
    accusations: Sequence[Accusation] = ()

    def of(self, verdict: str) -> list[Check]:
        r"""The checks with a verdict.

        Args:
            verdict (str): One of the four verdicts.
        """
        if verdict not in VERDICTS:
            raise ValueError(f"'verdict' must be one of {VERDICTS} (got '{verdict}')")
        return [check for check in self.checks if check.verdict == verdict]

    @property
    def verdict(self) -> str:
        r"""The worst verdict. :obj:`"not checked"` ranks between
        :obj:`"above the limit"` and the two others.
        """
        return next((name for name in (ABOVE, UNCHECKED, WITHIN) if self.of(name)), NOTHING)

    @property
    def headline(self) -> str:
        r"""The strongest attack as a sentence."""
        best = strongest(self.accusations)
        if best is None:
            return 'No attack on members was run.'
        says = best.sentence().replace('It', 'The best attack', 1)
        areas = [c for c in self.checks if c.name.endswith(AREA) and c.verdict in (WITHIN, ABOVE)]
        if best.is_found or not areas:
            return says
        most = max(check.value or 0.0 for check in areas)
        better = f'on average, attacks do better than chance (an area of {most:.2f}, not 0.50).'
        return says.replace('which chance can explain.', f'which chance can explain; {better}')

    @property
    def summary(self) -> str:
        r"""The number of checks with each verdict as a sentence."""
        counts = [(len(self.of(name)), name) for name in (ABOVE, UNCHECKED, WITHIN, NOTHING)]
        parts = [f'{count} {name}' for count, name in counts if count]
        total = len(self.checks)
        return f'{total} check{"s" * (total != 1)}: {"; ".join(parts) or "none was made"}.'

    def exit_code(self, allow_unchecked: bool = False) -> int:
        r"""1 if a check is above the limit, 3 if one was not made, else 0.

        Args:
            allow_unchecked (bool, optional): Whether checks may be missing.
                (default: :obj:`False`)
        """
        if self.of(ABOVE):
            return 1
        return 3 if self.of(UNCHECKED) and not allow_unchecked else 0

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        best = strongest(self.accusations)
        return {
            'format': FORMAT,
            'notice': NOTICE,
            'headline': self.headline,
            'summary': self.summary,
            'verdict': self.verdict,
            'strongest': None if best is None else best.to_dict(),
            'checks': [check.to_dict() for check in self.checks],
            'settings': self.settings,
            'details': self.details,
            'card': self.card,
        }


def _percent(share: float) -> str:
    r"""A share with two digits, as in 4.5 %."""
    percent = 100 * share
    return f'{percent:.2g} %' if 0 < percent < 10 else f'{percent:.0f} %'
