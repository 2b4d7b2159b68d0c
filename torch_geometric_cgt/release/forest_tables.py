r"""The forest of a release as columns: nodes, edges, trees and codebook."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.release.release import Release

Columns = dict[str, NDArray]
NO_NODE = -1  # token of a null slot


@dataclass(frozen=True)
class ForestTables:
    r"""A release as tables of NumPy columns. A column has one value or one
    vector per row.

    Args:
        nodes (dict): The tree and the slot of each node, and all node
            attributes of the forest apart from its features, which are
            ``codebook['x'][nodes['cluster']]``.
        edges (dict): The child (:obj:`source`) and the parent
            (:obj:`target`) of each edge, and all edge attributes.
        trees (dict): The label, the split code and the tokens of each tree;
            :obj:`-1` marks a null slot.
        codebook (dict): The feature vector of each token.
        projection (dict): One row per feature of the source, if the codebook
            is projected; otherwise empty.
    """

    nodes: Columns
    edges: Columns
    trees: Columns
    codebook: Columns
    projection: Columns

    @classmethod
    def of(cls, release: Release) -> ForestTables:
        r"""Converts a release.

        Args:
            release (Release): The release.
        """
        trees = release.trees
        data = trees.to_data(release.codebook[:, :0])  # features follow from clusters
        slot = trees.forest().slot
        nodes = {'tree': slot // trees.shape.num_slots, 'slot': slot % trees.shape.num_slots}
        nodes |= {name: v for name, v in data.to_dict().items() if _is_column(data, name, 'node')}
        source, target = data.edge_index
        edges = {'source': source, 'target': target}
        edges |= {name: v for name, v in data.to_dict().items() if _is_column(data, name, 'edge')}
        tokens = trees.tokens.int().masked_fill(~trees.real, NO_NODE)
        rows = {'tree': torch.arange(len(trees)), 'y': trees.y, 'split': trees.split}
        projection = {} if release.projection is None else {'row': release.projection}
        return cls(
            nodes=_columns({'node': torch.arange(slot.numel()), **nodes}),
            edges=_columns(edges),
            trees=_columns({**rows, 'tokens': tokens}),
            codebook=_columns({'token': torch.arange(trees.num_tokens), 'x': release.codebook}),
            projection=_columns(projection),
        )


def forest_of(release: Release) -> Data:
    r"""The forest of a release as one graph with features.

    Args:
        release (Release): The release.
    """
    return release.trees.to_data(release.codebook)


def _is_column(data: Data, name: str, kind: str) -> bool:
    is_attribute = data.is_node_attr(name) if kind == 'node' else data.is_edge_attr(name)
    return is_attribute and name not in ('x', 'edge_index')


def _columns(tensors: dict[str, Tensor]) -> Columns:
    return {name: _array(value) for name, value in tensors.items()}


def _array(value: Tensor) -> NDArray:
    value = value.detach().cpu()
    if value.dtype == torch.bfloat16:  # NumPy has no such type; float32 holds all its values
        value = value.float()
    return np.ascontiguousarray(value.numpy())
