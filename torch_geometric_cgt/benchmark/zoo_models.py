r"""The GNNs of the zoo: PyG's layers on batches of computation graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch_geometric.nn import (
    APPNP,
    GATConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GINConv,
    ResGatedGraphConv,
    SAGEConv,
    SGConv,
    TAGConv,
    TransformerConv,
)

from torch_geometric_cgt.benchmark.tree_batches import Table, TreeBatch

HIDDEN, NARROW, WIDE = 32, 8, 96
HEADS = 4


class TokenLinear(nn.Module):
    r"""A linear map without bias of the scaled features of each node. It is
    computed once for each distinct token of a batch.

    Args:
        in_channels (int): The number of features.
        out_channels (int): The number of outputs.
    """

    scale: Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.register_buffer('scale', torch.ones(()))  # see ZooTrees

    def forward(self, batch: TreeBatch, depth: int) -> Tensor:
        r"""The outputs for all nodes of at most a depth.

        Args:
            batch (TreeBatch): The computation graphs.
            depth (int): The depth.
        """
        table = batch.table(depth)
        if isinstance(table.rows, Tensor):
            out = self.lin(table.rows)
        else:
            out = _SparseLinear.apply(table, self.lin.weight)
        return (self.scale * out).index_select(0, batch.token[: batch.nodes_to(depth)])


class TokenMLP(nn.Module):
    r"""A perceptron with one hidden layer on the features of each node."""

    def __init__(self, in_channels: int, out_channels: int, dropout: float) -> None:
        super().__init__()
        self.inputs = TokenLinear(in_channels, HIDDEN)
        self.bias = nn.Parameter(torch.zeros(HIDDEN))
        self.out = nn.Linear(HIDDEN, out_channels)
        self.dropout = dropout

    def forward(self, batch: TreeBatch, depth: int) -> Tensor:
        r"""The outputs for all nodes of at most a depth."""
        h = (self.inputs(batch, depth) + self.bias).relu()
        return self.out(F.dropout(h, self.dropout, self.training))


class RawFeatures(nn.Module):
    r"""The features of each node as they are."""

    def forward(self, batch: TreeBatch, depth: int) -> Tensor:
        r"""The features of all nodes of at most a depth."""
        return batch.table(depth).dense.index_select(0, batch.token[: batch.nodes_to(depth)])


class _SparseLinear(torch.autograd.Function):
    r"""A linear map of sparse rows. The table keeps its transposed matrix for
    the gradient, which therefore does not sort entries again at every step.
    """

    @staticmethod
    def forward(ctx: Any, table: Table, weight: Tensor) -> Tensor:
        ctx.table = table
        return _product(table.rows, weight.t().contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _product(ctx.table.transposed, grad.contiguous()).t()


def _product(rows: Any, dense: Tensor) -> Tensor:
    return F.embedding_bag(
        rows.column, dense, rows.ptr[:-1], mode='sum', per_sample_weights=rows.value
    )


class ZooModel(nn.Module):
    r"""PyG's layers on computation graphs, read at the roots.

    A node of depth :math:`d` reaches the root through :math:`d` hops, so nodes
    that are too deep for the hops that are left are dropped before each layer.
    The logits equal those of the same layers on the whole graph.

    Args:
        inputs (torch.nn.Module): The features of the nodes.
        convs (list[torch.nn.Module]): The layers.
        kind (str): What a layer takes: children, parents and edges
            (:obj:`"pair"`), all nodes and edges (:obj:`"whole"`), edges that are
            weighted by a mean over children (:obj:`"mean"`), edges and
            self-loops with the weights of a GCN (:obj:`"gcn"`), or these and the
            inputs (:obj:`"gcn2"`).
        hops (int, optional): The number of hops of each layer.
            (default: :obj:`1`)
        out (torch.nn.Module, optional): A map of the outputs of the last
            layer. (default: :obj:`None`)
        dropout (float, optional): The dropout probability of hidden features.
            (default: :obj:`0.5`)
        shuffle (bool, optional): Whether to permute the inputs between all nodes
            of a batch. (default: :obj:`False`)
    """

    def __init__(
        self,
        inputs: nn.Module,
        convs: list[nn.Module],
        kind: str,
        hops: int = 1,
        out: nn.Module | None = None,
        dropout: float = 0.5,
        shuffle: bool = False,
    ) -> None:
        super().__init__()
        self.inputs, self.convs, self.out = inputs, nn.ModuleList(convs), out
        self.kind, self.hops, self.dropout, self.shuffle = kind, hops, dropout, shuffle

    def forward(self, batch: TreeBatch) -> Tensor:
        r"""The logits of the roots, ``[B, num_classes]``.

        Args:
            batch (TreeBatch): The computation graphs.
        """
        left = self.hops * len(self.convs)
        h = self.inputs(batch, batch.max_depth if self.kind == 'whole' else left)
        if self.shuffle:
            h = h[torch.randperm(h.size(0))]
        inputs = h
        for i, conv in enumerate(self.convs):
            h = self._layer(conv, h, inputs, batch, min(left, batch.max_depth + 1) - 1)
            left -= self.hops
            h = h[: batch.nodes_to(left)]
            if i + 1 < len(self.convs) or self.out is not None:
                h = F.dropout(h.relu(), self.dropout, self.training)
        return h if self.out is None else self.out(h)

    def _layer(
        self, conv: nn.Module, h: Tensor, inputs: Tensor, batch: TreeBatch, depth: int
    ) -> Tensor:
        if self.kind == 'pair':
            return conv((h, h[: batch.nodes_to(depth)]), batch.edges.into(depth)[0])
        if self.kind == 'whole':
            return conv(h, batch.edges.edge_index)
        if self.kind == 'mean':
            return conv(h, *batch.edges.into(depth))
        adjacency = batch.gcn_edges.adjacency(depth, h.size(0))
        return conv(h, inputs, adjacency) if self.kind == 'gcn2' else conv(h, adjacency)


def _sizes(hidden: int, num_classes: int, num_layers: int) -> list[tuple[int, int]]:
    return [(hidden, hidden)] * (num_layers - 1) + [(hidden, num_classes)]


def _mlp(in_channels: int, num_classes: int, dropout: float) -> ZooModel:
    return ZooModel(TokenMLP(in_channels, num_classes, dropout), [], 'pair')


def _gcn(
    in_channels: int, num_classes: int, dropout: float, hidden: int = HIDDEN, num_layers: int = 2
) -> ZooModel:
    convs: list[nn.Module] = [
        GCNConv(i, o, normalize=False) for i, o in _sizes(hidden, num_classes, num_layers)
    ]
    return ZooModel(TokenLinear(in_channels, hidden), convs, 'gcn', dropout=dropout)


def _gcn2(in_channels: int, num_classes: int, dropout: float) -> ZooModel:
    convs: list[nn.Module] = [
        GCN2Conv(HIDDEN, alpha=0.1, theta=0.5, layer=layer, normalize=False) for layer in (1, 2, 3)
    ]
    out = nn.Linear(HIDDEN, num_classes)
    return ZooModel(TokenLinear(in_channels, HIDDEN), convs, 'gcn2', out=out, dropout=dropout)


def _sgc(in_channels: int, num_classes: int, dropout: float) -> ZooModel:
    conv = SGConv(HIDDEN, num_classes, K=2)
    return ZooModel(TokenLinear(in_channels, HIDDEN), [conv], 'whole', hops=2)


def _appnp(in_channels: int, num_classes: int, dropout: float) -> ZooModel:
    conv = APPNP(K=4, alpha=0.1, normalize=False)
    return ZooModel(TokenMLP(in_channels, num_classes, dropout), [conv], 'gcn', hops=4)


def _tag(in_channels: int, num_classes: int, dropout: float) -> ZooModel:
    conv = TAGConv(HIDDEN, HIDDEN, K=2, normalize=False)
    out = nn.Linear(HIDDEN, num_classes)
    inputs = TokenLinear(in_channels, HIDDEN)
    return ZooModel(inputs, [conv], 'mean', hops=2, out=out, dropout=dropout)


def _children(in_channels: int, num_classes: int, dropout: float) -> ZooModel:
    conv = SAGEConv(HIDDEN, HIDDEN, root_weight=False)
    out = nn.Linear(HIDDEN, num_classes)
    return ZooModel(TokenLinear(in_channels, HIDDEN), [conv], 'pair', out=out, dropout=dropout)


def _layers(
    layer: Callable[[int, int, bool], nn.Module],
    in_channels: int,
    num_classes: int,
    dropout: float,
    shuffle: bool = False,
) -> ZooModel:
    r"""Two layers of one kind. The layer receives the numbers of inputs and
    outputs, and whether it is the last one.
    """
    convs = [layer(HIDDEN, HIDDEN, False), layer(HIDDEN, num_classes, True)]
    inputs = TokenLinear(in_channels, HIDDEN)
    return ZooModel(inputs, convs, 'pair', dropout=dropout, shuffle=shuffle)


def _gin_layer(i: int, o: int, last: bool) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(i, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, o)))


def _heads(conv: type[nn.Module]) -> Callable[[int, int, bool], nn.Module]:
    r"""Layers of an attention with several heads, and one head at the end."""
    return lambda i, o, last: conv(i, o) if last else conv(i, o // HEADS, heads=HEADS)


def _sage_layer(aggr: str) -> Callable[[int, int, bool], nn.Module]:
    return lambda i, o, last: SAGEConv(i, o, aggr=aggr)


def _gated_layer(i: int, o: int, last: bool) -> nn.Module:
    return ResGatedGraphConv(i, o)


def _plain(
    make: Callable[[int, int, float], list[nn.Module]],
    kind: str,
    in_channels: int,
    num_classes: int,
    dropout: float,
    hops: int = 1,
) -> ZooModel:
    convs = make(in_channels, num_classes, dropout)
    return ZooModel(RawFeatures(), convs, kind, hops=hops, dropout=dropout)


def _plain_gcn(in_channels: int, num_classes: int, dropout: float) -> list[nn.Module]:
    return [
        GCNConv(in_channels, 64, normalize=False),
        GCNConv(64, num_classes, normalize=False),
    ]


def _plain_sgc(in_channels: int, num_classes: int, dropout: float) -> list[nn.Module]:
    return [SGConv(in_channels, num_classes, K=2)]


def _plain_gin(in_channels: int, num_classes: int, dropout: float) -> list[nn.Module]:
    return [
        GINConv(nn.Sequential(nn.Linear(in_channels, 64), nn.ReLU(), nn.Linear(64, 64))),
        GINConv(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, num_classes))),
    ]


def _plain_gat(in_channels: int, num_classes: int, dropout: float) -> list[nn.Module]:
    return [
        GATConv(in_channels, 8, heads=8, dropout=dropout),
        GATConv(64, num_classes, dropout=dropout),
    ]


# By name: features, classes and dropout to a network.
Maker = Callable[[int, int, float], ZooModel]
MAKERS: dict[str, Maker] = {
    'MLP': _mlp,  # the root alone
    'Children': _children,  # the children alone, without the root
    'GCN-1': partial(_gcn, num_layers=1),
    'GCN': _gcn,
    'GCN-3': partial(_gcn, num_layers=3),
    'GCN-narrow': partial(_gcn, hidden=NARROW),
    'GCN-wide': partial(_gcn, hidden=WIDE),
    'SGC': _sgc,
    'GCNII': _gcn2,
    'APPNP': _appnp,
    'TAG': _tag,
    'SAGE': partial(_layers, _sage_layer('mean')),
    'SAGE-max': partial(_layers, _sage_layer('max')),
    'GIN': partial(_layers, _gin_layer),
    'GAT': partial(_layers, _heads(GATConv)),
    'GATv2': partial(_layers, _heads(GATv2Conv)),
    'Transformer': partial(_layers, _heads(TransformerConv)),
    'Gated': partial(_layers, _gated_layer),
    'Shuffled': partial(_layers, _gin_layer, shuffle=True),  # the floor: sees structure only
    'plain GCN': partial(_plain, _plain_gcn, 'gcn'),
    'plain SGC': partial(_plain, _plain_sgc, 'whole', hops=2),
    'plain GIN': partial(_plain, _plain_gin, 'pair'),
    'plain GAT': partial(_plain, _plain_gat, 'pair'),
}
PLAIN = ('plain GCN', 'plain SGC', 'plain GIN', 'plain GAT')
FLOOR = ('Shuffled',)
ZOO = tuple(name for name in MAKERS if name not in PLAIN)
