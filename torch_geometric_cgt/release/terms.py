r"""The terms of a release: its licence, whom to ask, and what it is meant for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.release.checks import TERMS

if TYPE_CHECKING:
    from torch_geometric_cgt.release.release import Release

NAMES = {'license': 'License', 'contact': 'Contact', 'intended_use': 'Intended use'}


@dataclass(frozen=True)
class Terms:
    r"""What the owner states about the use of a release. Every field is one
    line of text and optional.

    Args:
        license (str, optional): The licence of the release, preferably as an
            SPDX identifier such as :obj:`"CC-BY-4.0"`. (default: :obj:`None`)
        contact (str, optional): Whom to ask, such as an address.
            (default: :obj:`None`)
        intended_use (str, optional): What the release is meant for.
            (default: :obj:`None`)
    """

    license: str | None = None
    contact: str | None = None
    intended_use: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            TERMS[name](name, value)

    def to_dict(self) -> dict[str, str]:
        r"""The terms that are stated."""
        return {name: value for name in TERMS if (value := getattr(self, name)) is not None}

    @classmethod
    def of(cls, card: dict[str, Any]) -> Terms:
        r"""The terms of a card, none of which are stated on older ones.

        Args:
            card (dict): The content of :obj:`card.json`.
        """
        return cls(**card.get('terms', {}))

    def completed(self, other: Terms) -> Terms:
        r"""These terms, and those that only :obj:`other` states. Raises
        :class:`ValueError` if both state one of them differently.

        Args:
            other (Terms): Further terms.
        """
        for name, value in other.to_dict().items():
            if (stated := getattr(self, name)) not in (None, value):
                raise ValueError(
                    f"The card states '{name}' as {stated!r}, which is not {value!r}; to change "
                    f"it, save the dataset again with '{name}'"
                )
        return replace(other, **self.to_dict())

    def lines(self) -> list[str]:
        r"""One line per stated term, for a README."""
        return [f'- {NAMES[name]}: {value}' for name, value in self.to_dict().items()]


def with_terms(release: Release, terms: Terms) -> Release:
    r"""A release whose card states further terms. Given terms replace those of
    the card.

    Args:
        release (Release): The release.
        terms (Terms): The terms; without any, the release stays as it is.
    """
    if not terms.to_dict():
        return release
    stated = {**Terms.of(release.card).to_dict(), **terms.to_dict()}
    ordered = {name: stated[name] for name in TERMS if name in stated}
    return replace(release, card={**release.card, 'terms': ordered})
