r"""What a release guarantees, and what it costs."""

from __future__ import annotations

from typing import Any

from torch_geometric_cgt.privacy.budget import Budget
from torch_geometric_cgt.privacy.card import PrivacyCard, privacy_card
from torch_geometric_cgt.privacy.cluster_card import ClusterCard
from torch_geometric_cgt.privacy.dp_card import DPCard
from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.ledger import Ledger, Total
from torch_geometric_cgt.privacy.noise import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Noise,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.units import UNITS, CappedSample

Card = PrivacyCard | DPCard


def card_from_dict(content: dict[str, Any]) -> Card:
    r"""The card of a release, whatever it promises.

    Args:
        content (dict): What the card's :obj:`to_dict` gave.
    """
    cards: dict[str, type[PrivacyCard] | type[DPCard]] = {
        PrivacyCard.mechanism: PrivacyCard,
        ClusterCard.mechanism: ClusterCard,
        DPCard.mechanism: DPCard,
    }
    if content['mechanism'] not in cards:
        raise ValueError(f"Unknown mechanism '{content['mechanism']}'; known are {list(cards)}")
    return cards[content['mechanism']].from_dict(content)


__all__ = [
    'UNITS',
    'Budget',
    'CappedSample',
    'Card',
    'ClusterCard',
    'DPCard',
    'DiscreteGaussian',
    'Entry',
    'Gaussian',
    'Laplace',
    'Ledger',
    'Noise',
    'PrivacyCard',
    'SampledGaussian',
    'Total',
    'card_from_dict',
    'privacy_card',
]
