r"""PyG transforms: quantization, duplicate encoding, noisy edges, biased training."""

from torch_geometric_cgt.transforms.biased_training import BiasedTraining
from torch_geometric_cgt.transforms.duplicate_encode import DuplicateEncode
from torch_geometric_cgt.transforms.noisy_edges import AddNoisyEdges
from torch_geometric_cgt.transforms.quantize import Quantize

__all__ = ['AddNoisyEdges', 'BiasedTraining', 'DuplicateEncode', 'Quantize']
