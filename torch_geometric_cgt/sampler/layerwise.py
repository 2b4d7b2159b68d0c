r"""Layer-wise sampling: the roots of a batch share the nodes of each layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.sampler.neighbors import sample_children
from torch_geometric_cgt.utils.checks import check_positive

#: From the edges into the layer above to the nodes that may be drawn [C] and their weights [C].
Candidates = Callable[[InNeighbors], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class LayerWiseSampler(ABC):
    r"""The base class of samplers that draw the nodes of a whole layer at once.

    Roots are divided into random batches. For each layer of a batch,
    :obj:`layer_size` distinct nodes are drawn without replacement, in
    proportion to their weights; if there are fewer candidates, all of them are
    taken. The children of a parent are its in-neighbours among these nodes, or
    a uniform sample of them where there are more than the fan-out. A parent
    without such neighbours has null children.

    Args:
        batch_size (int, optional): The number of roots that share their
            layers. (default: :obj:`512`)
        layer_size (int, optional): The number of nodes that are drawn for each
            layer of a batch. (default: :obj:`512`)
    """

    batch_size: int = 512
    layer_size: int = 512

    def __post_init__(self) -> None:
        check_positive('batch_size', self.batch_size)
        check_positive('layer_size', self.layer_size)

    @abstractmethod
    def candidates(self, graph: InNeighbors) -> Candidates:
        r"""Returns the function that gives the candidates of a layer and their weights."""

    def __call__(
        self,
        graph: InNeighbors,
        root: Tensor,
        shape: TreeShape,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        candidates = self.candidates(graph)
        tree = root.new_full((root.numel(), shape.num_slots), -1)
        order = torch.randperm(root.numel(), generator=generator, device=root.device)
        for batch in order.split(self.batch_size):
            layers = [root[batch].view(-1, 1)]
            for layer, fan_out in enumerate(shape.num_neighbors, start=1):
                # Copies of a parent share one row, so the edges of a hub are listed once.
                parent, place = layers[-1].reshape(-1).unique(return_inverse=True)
                rows = graph.rows(parent)
                drawn = draw_nodes(*candidates(rows), self.layer_size, generator)
                rows = rows.keep(torch.isin(rows.source, drawn))
                position = sample_children(rows, place, fan_out, generator)
                child = rows.source_of(position)
                layers.append(child.view(-1, shape.layer_sizes[layer]))
            tree[batch] = torch.cat(layers, dim=1)
        return tree


@dataclass(frozen=True)
class FastGCNSampler(LayerWiseSampler):
    r"""The layer-wise sampler of `"FastGCN" <https://arxiv.org/abs/1801.10247>`_.

    Every layer is drawn from all nodes, independently of the layer above. Node
    :math:`u` has the weight :math:`\sum_v P_{vu}^2`, the squared norm of its
    column in the normalised adjacency matrix :math:`P` (see
    :meth:`column_norms`). On sparse graphs, few parents have a neighbour among
    the drawn nodes, and trees are mostly null: use a :obj:`layer_size` that
    grows with the graph.
    """

    def candidates(self, graph: InNeighbors) -> Candidates:
        columns = column_norms(graph, out_degree(graph))
        return lambda rows: columns


@dataclass(frozen=True)
class LADIESSampler(LayerWiseSampler):
    r"""The layer-wise sampler of `"LADIES" <https://arxiv.org/abs/1911.07323>`_.

    A layer is drawn from the neighbours of the layer above. Node :math:`u` has
    the weight :math:`\sum_v P_{vu}^2` over the distinct nodes :math:`v` of the
    layer above in the trees of the batch, where :math:`P` is the normalised
    adjacency matrix (see :meth:`column_norms`).
    """

    def candidates(self, graph: InNeighbors) -> Candidates:
        degree = out_degree(graph)
        return lambda rows: column_norms(rows, degree)


def out_degree(graph: InNeighbors) -> Tensor:
    r"""Returns the number of edges out of each node."""
    return torch.bincount(graph.source, minlength=graph.num_nodes)


def column_norms(rows: InNeighbors, out_degree: Tensor) -> tuple[Tensor, Tensor]:
    r"""Returns the squared norms of the columns of the normalised adjacency
    matrix, summed over some rows.

    An edge from :math:`u` to :math:`v` has the entry :math:`P_{vu} = (d_v
    d_u)^{-1/2}`, with the in-degree of :math:`v` and the out-degree of
    :math:`u`. On an undirected graph, this is :math:`D^{-1/2} A D^{-1/2}`. The
    self-loops that a GCN adds are left out, since trees do not have them.

    Args:
        rows (InNeighbors): All edges into some nodes.
        out_degree (torch.Tensor): The out-degree of every node, ``[N]``.

    Returns:
        The nodes with an edge into the rows, ``[C]``, and their squared norms.
    """
    degree = rows.ptr.diff()
    # float64: the product of two degrees, summed over as many edges.
    square = 1 / (degree.repeat_interleave(degree).double() * out_degree[rows.source])
    node, place = rows.source.unique(return_inverse=True)
    return node, square.new_zeros(node.numel()).index_add(0, place, square)


def draw_nodes(
    node: Tensor, weight: Tensor, num_nodes: int, generator: torch.Generator | None = None
) -> Tensor:
    r"""Draws distinct nodes one after the other, each in proportion to its
    weight among the remaining ones.

    Each node gets an exponential random number with its weight as the rate.
    The nodes with the smallest numbers are drawn.

    Args:
        node (torch.Tensor): The candidates, ``[C]``.
        weight (torch.Tensor): Their weights, ``[C]``.
        num_nodes (int): The number of draws. If there are not more
            candidates, all of them are returned.
        generator (torch.Generator, optional): The source of randomness.
    """
    if node.numel() <= num_nodes:
        return node
    uniform = torch.rand(node.numel(), dtype=torch.float64, device=node.device, generator=generator)
    arrival = -torch.log1p(-uniform) / weight
    return node[arrival.topk(num_nodes, largest=False).indices]
