r"""The synthetic dataset, and its sources: graphs of the literature, and the user's own files."""

import warnings
from typing import Any

from torch_geometric_cgt.datasets.graph_files import TableOptions, from_files, read_tables
from torch_geometric_cgt.datasets.reading import Decision, Reading
from torch_geometric_cgt.datasets.source_kinds import SourceGraph
from torch_geometric_cgt.datasets.sources import (
    CS,
    SOURCES,
    Actor,
    CiteSeer,
    Computers,
    Cora,
    DigitQuarters,
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
    'Decision',
    'DigitQuarters',
    'Digits',
    'Minesweeper',
    'OgbnArxiv',
    'OgbnProducts',
    'Photo',
    'Physics',
    'PubMed',
    'Reading',
    'SourceGraph',
    'SquirrelFiltered',
    'SyntheticCGTDataset',
    'TableOptions',
    'Tolokers',
    'from_files',
    'load_source',
    'read_tables',
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
