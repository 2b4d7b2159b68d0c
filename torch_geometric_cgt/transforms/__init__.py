r"""PyG transforms: quantization and duplicate encoding."""

from torch_geometric_cgt.transforms.duplicate_encode import DuplicateEncode
from torch_geometric_cgt.transforms.quantize import Quantize

__all__ = ['DuplicateEncode', 'Quantize']
