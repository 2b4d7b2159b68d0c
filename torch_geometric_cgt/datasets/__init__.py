r"""The synthetic dataset, and the paper's graphs as sources."""

from torch_geometric_cgt.datasets.digits import Digits
from torch_geometric_cgt.datasets.sources import (
    CS,
    SOURCES,
    CiteSeer,
    Computers,
    Cora,
    OgbnArxiv,
    OgbnProducts,
    Photo,
    Physics,
    PubMed,
    load_source,
)
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.private_config import PrivateConfig

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
    'PrivateConfig',
    'PubMed',
    'SyntheticCGTDataset',
    'load_source',
]
