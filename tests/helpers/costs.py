"""Costs of builds with one Gaussian mechanism."""

from torch_geometric_cgt.privacy import UNITS, Entry, Gaussian, Ledger
from torch_geometric_cgt.privacy.composition import Cost

UNIT, OTHER_UNIT, DELTA = UNITS[0], UNITS[1], 1e-5


def gaussian_ledger(sigma: float, unit: str = UNIT) -> Ledger:
    return Ledger(['counts'], [Entry('counts', 'histogram', {unit: 1.0}, Gaussian(sigma))])


def gaussian_cost(sigma: float, unit: str = UNIT, delta: float = DELTA) -> Cost:
    return Cost.of(gaussian_ledger(sigma, unit), unit, delta)
