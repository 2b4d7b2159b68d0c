r"""Synthetic, privacy-controlled substitutes of graphs for PyG."""

from torch_geometric_cgt.datasets import SyntheticCGTDataset
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity
from torch_geometric_cgt.sampler import TreeNeighborSampler
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.transforms import DuplicateEncode, Quantize
from torch_geometric_cgt.version import __version__

__all__ = [
    'CGTGenerator',
    'DifferentialPrivacy',
    'DuplicateEncode',
    'FitConfig',
    'KAnonymity',
    'Quantize',
    'SyntheticCGTDataset',
    'TreeNeighborSampler',
    '__version__',
]
