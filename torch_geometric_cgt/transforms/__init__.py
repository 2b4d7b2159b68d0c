r"""PyG transforms: quantization, duplicate encoding, splits, perturbations, biased training."""

from torch_geometric_cgt.transforms.biased_training import BiasedTraining
from torch_geometric_cgt.transforms.duplicate_encode import DuplicateEncode
from torch_geometric_cgt.transforms.forest_splits import RootNodeSplit, TreeLinkSplit, forest_aware
from torch_geometric_cgt.transforms.look_up_features import LookUpFeatures
from torch_geometric_cgt.transforms.perturbations import (
    AddAttributeNoise,
    AddNoisyEdges,
    AddRandomEdges,
    DropRandomEdges,
    Reidentification,
    reidentification,
)
from torch_geometric_cgt.transforms.quantize import Quantize

__all__ = [
    'AddAttributeNoise',
    'AddNoisyEdges',
    'AddRandomEdges',
    'BiasedTraining',
    'DropRandomEdges',
    'DuplicateEncode',
    'LookUpFeatures',
    'Quantize',
    'Reidentification',
    'RootNodeSplit',
    'TreeLinkSplit',
    'forest_aware',
    'reidentification',
]
