r"""The generator. It sees tokens only, no features and no graph."""

from torch_geometric_cgt.nn.cgt_generator import CGTGenerator

__all__ = ['CGTGenerator']
