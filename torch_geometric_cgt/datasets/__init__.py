r"""The synthetic dataset, and the graphs of the paper as sources."""

import warnings
from typing import Any

from torch_geometric_cgt.datasets.sources import (
    CS,
    SOURCES,
    CiteSeer,
    Computers,
    Cora,
    Digits,
    OgbnArxiv,
    OgbnProducts,
    Photo,
    Physics,
    PubMed,
    load_source,
)
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline import DifferentialPrivacy

__all__ = [
    'CS',
    'SOURCES',
    'CiteSeer',
    'Computers',
    'Cora',
    'Digits',
    'OgbnArxiv',
    'OgbnProducts',
    'Photo',
    'Physics',
    'PubMed',
    'SyntheticCGTDataset',
    'load_source',
]


def __getattr__(name: str) -> Any:
    if name == 'PrivateConfig':
        warnings.warn(
            "'PrivateConfig' is deprecated: use 'torch_geometric_cgt.DifferentialPrivacy'",
            DeprecationWarning,
            stacklevel=2,
        )
        return DifferentialPrivacy
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
