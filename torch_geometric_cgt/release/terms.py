r"""What the owner adds to a release: licence, contact, intended use and names of labels; and the
names of licences, as SPDX identifiers and as words of the Hugging Face hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.release.checks import TERMS, check_class_names

if TYPE_CHECKING:
    from torch_geometric_cgt.release.release import Release


NAMES = {'license': 'License', 'contact': 'Contact', 'intended_use': 'Intended use'}
# What the README says about names of labels, for releases with and without differential privacy.
BY_CHOICE = 'The owner publishes the names of the labels by choice.'
NAMES_ARE_PUBLIC = {
    True: 'They are taken to be public: no entry of the ledger pays for them.',
    False: 'The guarantee does not cover them: they are those of the source.',
}
SPDX = (  # identifiers whose lower-case form is the name on the hub
    'Apache-2.0',
    'MIT',
    'BSD-2-Clause',
    'BSD-3-Clause',
    'CC0-1.0',
    'CC-BY-4.0',
    'CC-BY-SA-4.0',
    'CC-BY-NC-4.0',
    'CC-BY-ND-4.0',
    'CC-BY-NC-SA-4.0',
    'CC-BY-NC-ND-4.0',
    'CC-BY-3.0',
    'CC-BY-SA-3.0',
    'CDLA-Permissive-1.0',
    'CDLA-Permissive-2.0',
    'CDLA-Sharing-1.0',
    'ODbL-1.0',
    'ODC-By-1.0',
    'PDDL-1.0',
)
HUB = {'odbl-1.0': 'odbl', 'odc-by-1.0': 'odc-by', 'pddl-1.0': 'pddl'}  # names without a version


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


def with_class_names(release: Release, class_names: Sequence[str]) -> Release:
    r"""A release whose card has the names of labels. Without this consent of the
    owner, a release has the numbers of labels only.

    Args:
        release (Release): The release.
        class_names (list[str]): The name of each label.
    """
    names = [class_names] if isinstance(class_names, str) else list(class_names)
    check_class_names(names, release.card['num_classes'])
    return replace(release, card={**release.card, 'class_names': names})


def class_name_lines(card: dict[str, Any]) -> list[str]:
    r"""The part of a README with the names of labels; empty if the owner does not
    publish them.

    Args:
        card (dict): The content of :obj:`card.json`.
    """
    if 'class_names' not in card:
        return []
    is_private = card['privacy'].get('epsilon') is not None
    rows = [f'- {label}: {name}' for label, name in enumerate(card['class_names'])]
    says = f'{BY_CHOICE} {NAMES_ARE_PUBLIC[is_private]}'
    return ['## Names of labels', '', says, '', *rows, '', '']


def spdx_of(license: str | None) -> str | None:
    r"""The SPDX identifier of a licence in any case, if it is a known one.

    Args:
        license (str, optional): What the owner states.
    """
    known = {name.lower(): name for name in SPDX}
    return None if license is None else known.get(license.strip().lower())


def license_url(license: str | None) -> str | None:
    r"""The page of a known licence; the text of another one.

    Args:
        license (str, optional): What the owner states.
    """
    identifier = spdx_of(license)
    return license if identifier is None else f'https://spdx.org/licenses/{identifier}.html'


def hub_license(license: str | None) -> dict[str, str]:
    r"""The licence in the words of the Hugging Face hub.

    Args:
        license (str, optional): What the owner states.
    """
    if license is None:
        return {'license': 'unknown'}
    identifier = spdx_of(license)
    if identifier is None:
        return {'license': 'other', 'license_name': license}
    return {'license': HUB.get(identifier.lower(), identifier.lower())}
