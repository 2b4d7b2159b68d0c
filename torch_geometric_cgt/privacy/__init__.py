r"""The mathematics of differential privacy: noise, mechanisms, units, accounting and ledger."""

from torch_geometric_cgt.privacy.accounting import Budget
from torch_geometric_cgt.privacy.entries import Entry
from torch_geometric_cgt.privacy.ledger import Ledger, Total
from torch_geometric_cgt.privacy.noise import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Noise,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.queries import Answer, Queries
from torch_geometric_cgt.privacy.units import UNITS, CappedSample, StableSample

__all__ = [
    'UNITS',
    'Answer',
    'Budget',
    'CappedSample',
    'DiscreteGaussian',
    'Entry',
    'Gaussian',
    'Laplace',
    'Ledger',
    'Noise',
    'Queries',
    'SampledGaussian',
    'StableSample',
    'Total',
]
