r"""The generator; it sees tokens only."""

from torch_geometric_cgt.nn.cgt_generator import CGTGenerator

__all__ = ['CGTGenerator']
