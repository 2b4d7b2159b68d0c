r"""The base class of generators of whole graphs, as tree models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.table_model import TableModel
from torch_geometric_cgt.data import InNeighbors, tokens_of
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeSource
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.utils.seeds import seeded

TABLES = ('graph_token', 'graph_ptr', 'graph_source', 'graph_root', 'graph_root_ptr')


class GraphModel(TableModel):
    r"""A generator of whole graphs. :meth:`fit` learns from the edges of the source
    and generates one graph. :meth:`sample` samples computation graphs of that
    graph, with the sampler of this package: for each label, a root is drawn among
    the generated nodes that have it. If no generated node has a label, a root is
    drawn among all nodes.

    A subclass implements :meth:`fit_graph` and :meth:`generate`.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    graph_token: Tensor  # [N] token of each generated node
    graph_ptr: Tensor  # [N + 1] generated in-neighbours
    graph_source: Tensor  # [E]
    graph_root: Tensor  # [R] generated nodes with a label, sorted by it
    graph_root_ptr: Tensor  # [C + 1]

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors, TABLES)

    @abstractmethod
    def fit_graph(
        self, graph: TokenGraph, source: TreeSource, context: FitContext
    ) -> dict[str, Any]:
        r"""Learns from a graph and returns the history of the fit.

        Args:
            graph (TokenGraph): The tokens, labels and edges of all nodes.
            source (TreeSource): The source, with the codebook and the splits of
                its roots.
            context (FitContext): Where and how to fit.
        """

    @abstractmethod
    def generate(self, generator: torch.Generator) -> TokenGraph:
        r"""Generates a graph with tokens in ``[0, num_tokens)``, labels (negative
        where a node has none) and edges from child to parent.

        Args:
            generator (torch.Generator): The source of randomness, on the CPU.
        """

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Learns from the graph of the source and generates one graph."""
        context = context or FitContext()
        if source.graph is None:
            raise ValueError(
                f"'{self.name}' learns from whole graphs: give the source a 'graph' (TokenGraph)"
            )
        context.limits.check()
        history = self.fit_graph(source.graph, source, context)
        context.limits.check()
        self.take_graph(self.generate(seeded(context.seed, 'generated graph')))
        return history

    def take_graph(self, graph: TokenGraph) -> None:
        r"""Takes the graph whose computation graphs :meth:`sample` returns.

        Args:
            graph (TokenGraph): The generated graph.
        """
        if graph.num_nodes == 0:
            raise ValueError('The generated graph has no nodes')
        token, y, edge_index = graph.token.cpu().long(), graph.y.cpu(), graph.edge_index.cpu()
        neighbors = InNeighbors.from_edge_index(edge_index, graph.num_nodes)
        label, order = torch.sort(y, stable=True)
        labels = torch.arange(self.num_classes + 1)
        first = int(torch.searchsorted(label, torch.tensor(0)))
        self.set_tables(
            graph_token=token,
            graph_ptr=neighbors.ptr,
            graph_source=neighbors.source,
            graph_root=order[first:],
            graph_root_ptr=torch.searchsorted(label, labels) - first,
        )

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``. Scenes are not used."""
        self.require_fitted()
        start = self.graph_root_ptr[y]
        count = self.graph_root_ptr[y + 1] - start
        missing, num_nodes = count == 0, self.graph_token.numel()
        uniform = torch.rand(y.size(), dtype=torch.float64, device=y.device, generator=generator)
        size = torch.where(missing, num_nodes, count)
        place = (uniform * size).long()
        if self.graph_root.numel() > 0:
            rooted = self.graph_root[(start + place).clamp(max=self.graph_root.numel() - 1)]
            root = torch.where(missing, place, rooted)
        else:
            root = place
        neighbors = InNeighbors(self.graph_ptr, self.graph_source)
        trees = sample_trees(neighbors, root, self.shape, generator)
        return tokens_of(trees, self.graph_token, self.num_tokens)
