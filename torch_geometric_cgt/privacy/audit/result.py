r"""What an audit found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_geometric_cgt.privacy.audit.check import Check

FORMAT = 1


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
            'passed': self.passed,
            'checks': [check.to_dict() for check in self.checks],
            'settings': self.settings,
            'details': self.details,
            'card': self.card,
        }
