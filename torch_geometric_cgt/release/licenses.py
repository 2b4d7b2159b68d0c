r"""Names of licences: SPDX identifiers, and the words of the Hugging Face hub for them."""

from __future__ import annotations

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
