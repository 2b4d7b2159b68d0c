r"""Verification that the card of a private release matches the plan of a build."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.pipeline import BuildConfig
from torch_geometric_cgt.pipeline.plan import SAMPLE_NOTE, STAGES, PrivatePlan, PublicNumbers
from torch_geometric_cgt.privacy import Entry
from torch_geometric_cgt.privacy.ledger import TOLERANCE
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.version import __version__

NOTES_1 = {  # the notes of entries in format 1
    SAMPLE_NOTE: 'they are sampled once and stay in the house: the sample is a part of the data'
}


def check_private_card(card: dict[str, Any], num_clusters: int, num_features: int) -> None:
    r"""Recomputes the plan of a private build from the public numbers and the
    parameters of a card. Raises :class:`LedgerError` if the ledger of the card
    has other entries than the plan, or if its facts contradict each other.

    A checksum has no key, so that an attacker who alters a card can also adapt
    its checksum. This check finds cards with mechanisms, sensitivities, group
    sizes, deltas or sentences that no build has. It cannot find a card that is
    consistent but made up.

    Args:
        card (dict): The card of a release.
        num_clusters (int): The number of feature vectors of the release.
        num_features (int): The dimension of the feature vectors.
    """
    privacy, source = Card.from_dict(card['privacy'], card['format']), card['source']
    config = BuildConfig.from_dict(card['parameters'])
    if config.private is None or privacy.ledger is None or privacy.epsilon is None:
        raise LedgerError('The parameters of the card are not those of a private build')
    numbers = PublicNumbers(
        source['num_nodes'], source['num_labelled'], source['num_classes'], config.shape
    )
    plan = PrivatePlan(numbers, config.private)
    expected = plan.entries()
    if card['format'] == 1:
        expected = [replace(e, note=NOTES_1.get(e.note, e.note)) for e in expected]
    _check_entries(expected, [Entry.from_dict(e) for e in privacy.ledger['entries']], card)
    most = plan.solver().plan(numbers.num_nodes, numbers.num_classes).num_clusters
    projected = plan.is_projected
    facts = {  # stated value, recomputed value
        'protects': (privacy.protects, config.private.unit),
        'form': (privacy.form, plan.form),
        'delta': (privacy.delta, plan.budget.delta),
        'large_delta': (privacy.large_delta, plan.has_large_delta),
        'stages': (privacy.ledger['stages'], list(STAGES)),
        'sample': (privacy.ledger['sample'], plan.sample and asdict(plan.sample)),
        'public': (privacy.public, plan.declared_public),
        'projected': (
            privacy.projected,
            [source['num_features'], num_features] if projected else None,
        ),
        'num_features': (
            card['num_features'],
            num_features if projected else source['num_features'],
        ),
        'num_clusters': (privacy.num_clusters, num_clusters),
        'num_tokens': (card['num_tokens'], num_clusters),
        'num_classes': (card['num_classes'], numbers.num_classes),
        'num_neighbors': (card['num_neighbors'], list(config.num_neighbors)),
        'num_trees': (card['num_trees'], config.num_samples or numbers.num_roots),
        'num_edges': (source['num_edges'], None),
    }
    for name, (stated, found) in facts.items():
        if not _is_equal(stated, found):
            raise LedgerError(_altered(f"'{name}' is {stated!r} and should be {found!r}", card))
    if card['num_features'] != num_features:
        raise LedgerError(_altered(f'feature vectors have {num_features} dimensions', card))
    if num_clusters > most:
        what = f'there are {num_clusters} feature vectors, but the budget allows at most {most}'
        raise LedgerError(_altered(what, card))
    if privacy.epsilon > config.private.epsilon * TOLERANCE:
        budget = config.private.epsilon
        what = f'epsilon = {privacy.epsilon:g} was spent, but the budget is {budget:g}'
        raise LedgerError(_altered(what, card))


def _check_entries(expected: list[Entry], stated: list[Entry], card: dict[str, Any]) -> None:
    r"""Raises :class:`LedgerError` unless the entries equal those of the plan, apart from the
    width of their noise.
    """
    for i in range(max(len(expected), len(stated))):
        own, other = (entries[i] if i < len(entries) else None for entries in (expected, stated))
        if own is None or other is None or not own.is_same_as(other):
            what = f"the plan has no entry '{other and other.name}'" if own is None else ''
            what = what or f"the ledger does not pay for '{own and own.name}' as it runs"
            raise LedgerError(_altered(f'{what} (stated: {other}, in the plan: {own})', card))


def _is_equal(stated: Any, found: Any) -> bool:
    if isinstance(stated, float) and isinstance(found, float):
        return math.isclose(stated, found, rel_tol=1e-9)
    return bool(stated == found)


def _altered(what: str, card: dict[str, Any]) -> str:
    made_by = card['versions']['torch_geometric_cgt']
    other = '' if made_by == __version__ else f', or made by another version ({made_by})'
    return f'The card does not match a private build: {what}. It was altered{other}'
