r"""The GNNs of :mod:`torch_geometric_cgt.nn` under their old name."""

from torch_geometric_cgt.nn.tree_convs import parents_with_children
from torch_geometric_cgt.nn.tree_gnns import GNN, PPNP, TreeGNN, lookup

__all__ = ['GNN', 'PPNP', 'TreeGNN', 'lookup', 'parents_with_children']
