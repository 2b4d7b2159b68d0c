r"""Fitting and sampling."""

from torch_geometric_cgt.training.device import resolve_device
from torch_geometric_cgt.training.fit import FitConfig, FitResult, evaluate, fit
from torch_geometric_cgt.training.sample import sample

__all__ = ['FitConfig', 'FitResult', 'evaluate', 'fit', 'resolve_device', 'sample']
