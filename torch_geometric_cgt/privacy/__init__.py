r"""The mathematics of differential privacy: noise, mechanisms, units, accounting and ledger."""

from torch_geometric_cgt.privacy.budget import Budget
from torch_geometric_cgt.privacy.ledger import Entry, Ledger, Total
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
    'SampledGaussian',
    'Total',
]
