r"""Fits and evaluates generators and samples from them, with one process or several."""

from torch_geometric_cgt.training.batches import evaluate
from torch_geometric_cgt.training.config import FitConfig, FitResult
from torch_geometric_cgt.training.fit import fit
from torch_geometric_cgt.training.sample import sample
from torch_geometric_cgt.utils.distributed import World, join_world, leave_world, resolve_device

__all__ = [
    'FitConfig',
    'FitResult',
    'World',
    'evaluate',
    'fit',
    'join_world',
    'leave_world',
    'resolve_device',
    'sample',
]
