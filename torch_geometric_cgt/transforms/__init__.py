r"""PyG transforms: quantization, duplicate encoding, noisy edges."""

from torch_geometric_cgt.transforms.duplicate_encode import DuplicateEncode
from torch_geometric_cgt.transforms.noisy_edges import AddNoisyEdges
from torch_geometric_cgt.transforms.quantize import Quantize

__all__ = ['AddNoisyEdges', 'DuplicateEncode', 'Quantize']
