r"""The mathematics of differential privacy: noise, mechanisms, units, accounting and ledger."""

from torch_geometric_cgt.privacy.accounting import Budget
from torch_geometric_cgt.privacy.ledger import Entry, Ledger, Total
from torch_geometric_cgt.privacy.noise import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Noise,
    SampledGaussian,
)
from torch_geometric_cgt.privacy.queries import Answer, Queries
from torch_geometric_cgt.privacy.stability import StableSample
from torch_geometric_cgt.privacy.units import UNITS, CappedSample

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
