r"""The synthetic dataset, and graphs of the literature as sources."""

import warnings
from typing import Any

from torch_geometric_cgt.datasets.sources import (
    CS,
    SOURCES,
    Actor,
    CiteSeer,
    Computers,
    Cora,
    Digits,
    Minesweeper,
    OgbnArxiv,
    OgbnProducts,
    Photo,
    Physics,
    PubMed,
    SquirrelFiltered,
    Tolokers,
    load_source,
)
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline import DifferentialPrivacy

__all__ = [
    'CS',
    'SOURCES',
    'Actor',
    'CiteSeer',
    'Computers',
    'Cora',
    'Digits',
    'Minesweeper',
    'OgbnArxiv',
    'OgbnProducts',
    'Photo',
    'Physics',
    'PubMed',
    'SquirrelFiltered',
    'SyntheticCGTDataset',
    'Tolokers',
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
