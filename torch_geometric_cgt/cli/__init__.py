r"""The ``cgt`` command."""

from torch_geometric_cgt.cli.main import main

__all__ = ['main']
