r"""The GNNs of the benchmark by name."""

from __future__ import annotations

from itertools import pairwise

from torch_geometric_cgt.benchmark.convs import (
    AttentionConv,
    DrawnMeanConv,
    MeanConv,
    PlainMeanConv,
    SAGEConv,
    SumConv,
)
from torch_geometric_cgt.benchmark.gnn import GNN, TreeGNN
from torch_geometric_cgt.benchmark.layerwise import ASGCN, FastGCN
from torch_geometric_cgt.benchmark.nodewise import NodewiseGNN, PASSSampler, UniformSampler
from torch_geometric_cgt.benchmark.pagerank import PPNP
from torch_geometric_cgt.data import TreeShape

MODELS = ('GCN', 'SGC', 'GIN', 'GAT')
ALL_MODELS = (*MODELS, 'GraphSAGE', 'FastGCN', 'AS-GCN', 'PASS', 'PPNP')


def make_gnn(
    name: str,
    in_channels: int,
    num_classes: int,
    shape: TreeShape,
    hidden_channels: int = 64,
    dropout: float = 0.5,
    num_sampled: int | None = None,
) -> GNN:
    r"""Makes one of :obj:`ALL_MODELS`.

    Args:
        name (str): The name of the model.
        in_channels (int): The number of features.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees; its depth is the number
            of layers.
        hidden_channels (int, optional): The width. (default: :obj:`64`)
        dropout (float, optional): The dropout probability.
            (default: :obj:`0.5`)
        num_sampled (int, optional): For GraphSAGE and PASS, the number of
            children that each parent draws; for FastGCN and AS-GCN, the
            number of draws for a whole layer, per parent; the others take all
            children. If set to :obj:`None`, as many as the trees have slots
            for. (default: :obj:`None`)
    """
    if num_sampled is not None and num_sampled < 1:
        raise ValueError(f"'num_sampled' must be at least 1 (got {num_sampled})")
    sizes = [in_channels, *[hidden_channels] * (shape.depth - 1), num_classes]
    pairs = list(pairwise(sizes))
    if name == 'GCN':
        return TreeGNN([MeanConv(i, o) for i, o in pairs], shape, dropout)
    if name == 'SGC':
        plain = [PlainMeanConv() for _ in pairs[1:]]
        return TreeGNN([MeanConv(in_channels, num_classes), *plain], shape, 0.0, act=False)
    if name == 'GIN':
        return TreeGNN([SumConv(i, hidden_channels, o) for i, o in pairs], shape, dropout)
    if name == 'GAT':
        heads = [4] * (shape.depth - 1) + [1]
        return TreeGNN(
            [AttentionConv(i, o, h) for (i, o), h in zip(pairs, heads, strict=True)],
            shape,
            dropout,
        )
    if name in ('GraphSAGE', 'PASS'):
        means = [SAGEConv(i, o) for i, o in pairs]
        sampler = PASSSampler(in_channels, hidden_channels) if name == 'PASS' else UniformSampler()
        return NodewiseGNN(means, shape, sampler, num_sampled, dropout)
    if name in ('FastGCN', 'AS-GCN'):
        drawn = [DrawnMeanConv(i, o) for i, o in pairs]
        if name == 'FastGCN':
            return FastGCN(drawn, shape, num_sampled, dropout)
        return ASGCN(in_channels, drawn, shape, num_sampled, dropout)
    if name == 'PPNP':
        return PPNP(in_channels, hidden_channels, num_classes, shape, dropout)
    raise ValueError(f"Unknown model '{name}'; choose from {list(ALL_MODELS)}")
