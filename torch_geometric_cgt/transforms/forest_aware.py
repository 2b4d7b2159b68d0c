r"""Replaces PyG's splits by splits that know the roots of a forest."""

from __future__ import annotations

from collections.abc import Callable

from torch_geometric.transforms import Compose, RandomLinkSplit, RandomNodeSplit

from torch_geometric_cgt.transforms.root_node_split import RootNodeSplit
from torch_geometric_cgt.transforms.tree_link_split import TreeLinkSplit


def forest_aware(transform: Callable) -> Callable:
    r"""The transform that does on a forest what a transform does on a graph.

    :class:`~torch_geometric.transforms.RandomNodeSplit` would choose nodes
    without a label. :class:`~torch_geometric.transforms.RandomLinkSplit` would
    keep copies of held-out edges, and with :obj:`is_undirected=True` it would
    find no edges. They become :class:`RootNodeSplit` and
    :class:`TreeLinkSplit` with the same arguments, also inside of
    :class:`~torch_geometric.transforms.Compose`. Other transforms, and
    subclasses, stay as they are.

    Args:
        transform (callable): The transform.
    """
    if type(transform) is RandomLinkSplit:
        return TreeLinkSplit.like(transform)
    if type(transform) is RandomNodeSplit:
        return RootNodeSplit.like(transform)
    if isinstance(transform, Compose) and type(transform) is Compose:
        return Compose([forest_aware(part) for part in transform.transforms])
    return transform
