r"""The result of an audit: checks with a value, a threshold and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1  # of the JSON file
VERDICTS = ('passed', 'failed', 'descriptive')
NOTICE = (
    'Do not publish this audit. It contains exact statistics of the source without any noise. The '
    'promise of the release does not cover them. It is for the owner of the data only.'
)


@dataclass(frozen=True)
class Check:
    r"""One verdict of an audit.

    Args:
        name (str): What is checked.
        verdict (str): :obj:`"passed"`, :obj:`"failed"` or, where there is no
            promise to test, :obj:`"descriptive"`.
        value (float): What was measured.
        says (str): What the value means, in sentences for a reader who does
            not know the code.
        threshold (float, optional): What the value is compared with.
            (default: :obj:`None`)
        origin (str, optional): Where the threshold comes from.
            (default: :obj:`""`)
        low (float, optional): The lower end of the confidence interval of the
            value. (default: :obj:`None`)
        high (float, optional): Its upper end. (default: :obj:`None`)
        details (dict, optional): Further measurements, for a JSON file.
    """

    name: str
    verdict: str
    value: float
    says: str
    threshold: float | None = None
    origin: str = ''
    low: float | None = None
    high: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"'verdict' must be one of {VERDICTS} (got '{self.verdict}')")

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def verdict(passed: bool) -> str:
    r""":obj:`"passed"` or :obj:`"failed"`."""
    return 'passed' if passed else 'failed'


@dataclass(frozen=True)
class Audit:
    r"""What an audit found.

    Args:
        card (dict): The card of the release.
        checks (list[Check]): The checks.
        details (dict): What was measured, by the name of the check.
        settings (dict): The arguments of the audit.
    """

    card: dict[str, Any]
    checks: list[Check]
    details: dict[str, Any]
    settings: dict[str, Any]

    @property
    def failed(self) -> list[Check]:
        r"""The checks that failed."""
        return [check for check in self.checks if check.verdict == 'failed']

    @property
    def passed(self) -> bool:
        r"""Whether no check failed."""
        return not self.failed

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return {
            'format': FORMAT,
            'notice': NOTICE,
            'passed': self.passed,
            'checks': [check.to_dict() for check in self.checks],
            'settings': self.settings,
            'details': self.details,
            'card': self.card,
        }
