r"""Checks and the audit of them: what was measured, what it is held against, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1  # of the JSON file
VERDICTS = ('passed', 'failed', 'descriptive')
NOTICE = (
    'Do not publish this audit. It holds exact statistics of the source, without any noise, and is '
    'not covered by the promise of the release: it is for the owner of the data.'
)


@dataclass(frozen=True)
class Check:
    r"""One verdict of an audit.

    Args:
        name (str): What is checked.
        verdict (str): :obj:`"passed"`, :obj:`"failed"` or, where nothing is
            promised that could be broken, :obj:`"descriptive"`.
        value (float): What was measured.
        says (str): What the value is, as a sentence.
        threshold (float, optional): What the value is held against.
            (default: :obj:`None`)
        origin (str, optional): Where the threshold comes from.
            (default: :obj:`""`)
        low (float, optional): The lower end of the interval of the value.
            (default: :obj:`None`)
        high (float, optional): Its upper end. (default: :obj:`None`)
        details (dict, optional): All else that was measured, for a JSON file.
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
        r"""All of it, for a JSON file."""
        return asdict(self)


def verdict(passed: bool) -> str:
    r"""The word for it."""
    return 'passed' if passed else 'failed'


@dataclass(frozen=True)
class Audit:
    r"""What an audit found.

    Args:
        card (dict): The card of the release.
        checks (list[Check]): One verdict each.
        details (dict): What was measured, by check.
        settings (dict): How it was measured.
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
        r"""Whether none failed."""
        return not self.failed

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return {
            'format': FORMAT,
            'notice': NOTICE,
            'passed': self.passed,
            'checks': [check.to_dict() for check in self.checks],
            'settings': self.settings,
            'details': self.details,
            'card': self.card,
        }
