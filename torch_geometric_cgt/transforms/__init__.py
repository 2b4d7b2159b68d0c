r"""PyG transforms: quantization, duplicate encoding, perturbations, biased training."""

from torch_geometric_cgt.transforms.add_attribute_noise import AddAttributeNoise
from torch_geometric_cgt.transforms.add_noisy_edges import AddNoisyEdges
from torch_geometric_cgt.transforms.add_random_edges import AddRandomEdges
from torch_geometric_cgt.transforms.biased_training import BiasedTraining
from torch_geometric_cgt.transforms.drop_random_edges import DropRandomEdges
from torch_geometric_cgt.transforms.duplicate_encode import DuplicateEncode
from torch_geometric_cgt.transforms.quantize import Quantize
from torch_geometric_cgt.transforms.reidentification import Reidentification, reidentification

__all__ = [
    'AddAttributeNoise',
    'AddNoisyEdges',
    'AddRandomEdges',
    'BiasedTraining',
    'DropRandomEdges',
    'DuplicateEncode',
    'Quantize',
    'Reidentification',
    'reidentification',
]
