r"""Random graphs with given degrees, as tree models."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.baselines.block_graphs import (
    ConfigurationModel,
    DegreeCorrectedSBM,
    _BlockGraph,
)
from torch_geometric_cgt.baselines.graph_model import GraphModel
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeSource


class _BlockTrees(GraphModel):
    r"""Computation graphs of a random graph that keeps the degree and the label of
    every node. The token of a node is drawn given its label.
    """

    kind: ClassVar[type[_BlockGraph]]

    def fit_graph(
        self, graph: TokenGraph, source: TreeSource, context: FitContext
    ) -> dict[str, Any]:
        data = Data(edge_index=graph.edge_index, y=graph.y, cluster=graph.token)
        data.num_nodes = graph.num_nodes
        data.codebook = torch.zeros(self.num_tokens, 1)  # tokens are wanted, not features
        self._fitted = self.kind().fit(data)
        return {'num_nodes': graph.num_nodes, 'num_edges': int(self._fitted.num_edges_.sum())}

    def generate(self, generator: torch.Generator) -> TokenGraph:
        seed = int(torch.randint(1 << 31, (1,), generator=generator))
        data = self._fitted.sample(seed)
        y: Tensor = data.y
        return TokenGraph(data.token, y, data.edge_index)


class ConfigurationTrees(_BlockTrees):
    r"""Computation graphs of a :class:`ConfigurationModel`: a random graph with the
    degrees of the source, whose edges do not depend on labels.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'ConfigurationModel'
    kind = ConfigurationModel


class DegreeCorrectedSBMTrees(_BlockTrees):
    r"""Computation graphs of a :class:`DegreeCorrectedSBM`: a random graph with the
    degrees of the source and its number of edges between each pair of labels.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'DegreeCorrectedSBM'
    kind = DegreeCorrectedSBM
