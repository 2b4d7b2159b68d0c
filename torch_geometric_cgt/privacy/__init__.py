r"""What a release guarantees, and what it costs."""

from torch_geometric_cgt.privacy.budget import Budget
from torch_geometric_cgt.privacy.card import PrivacyCard, privacy_card
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

__all__ = [
    'UNITS',
    'Budget',
    'CappedSample',
    'DiscreteGaussian',
    'Entry',
    'Gaussian',
    'Laplace',
    'Ledger',
    'Noise',
    'PrivacyCard',
    'SampledGaussian',
    'Total',
    'privacy_card',
]
