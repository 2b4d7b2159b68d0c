r"""Other generators of graphs, to compare with."""

from torch_geometric_cgt.baselines.block_graphs import ConfigurationModel, DegreeCorrectedSBM

__all__ = ['ConfigurationModel', 'DegreeCorrectedSBM']
