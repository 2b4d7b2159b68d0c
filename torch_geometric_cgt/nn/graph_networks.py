r"""Three small GNNs that are trained together, on trees that are prepared for them: what is the
same in every step of their training is computed once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.nn.constant_matrix import ConstantMatrix
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.nn.tree_convs import (
    SLOPE,
    AttentionConv,
    SAGEConv,
    TreeConv,
    TreeGCNConv,
    parents_with_children,
)
from torch_geometric_cgt.nn.tree_gnns import TreeGNN
from torch_geometric_cgt.nn.view_batch import FeatureTable

HIDDEN = 32
HEADS = 4
DROPOUT = 0.5


class GraphNetworks(nn.Module):
    r"""Three small GNNs with non-linear layers, as a user would train them: GCN, GraphSAGE and GAT.
    They are trained together, and share no parameters.

    Args:
        in_channels (int): The number of features.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
    """

    def __init__(self, in_channels: int, num_classes: int, shape: TreeShape) -> None:
        super().__init__()
        sizes = list(pairwise([HIDDEN] * shape.depth + [num_classes]))
        heads = [HEADS] * (shape.depth - 1) + [1]
        stacks: list[list[TreeConv]] = [
            [TreeGCNConv(i, o) for i, o in sizes],
            [SAGEConv(i, o) for i, o in sizes],
            [AttentionConv(i, o, h) for (i, o), h in zip(sizes, heads, strict=True)],
        ]
        self.num_networks = len(stacks)
        self.gnns = nn.ModuleList(TreeGNN(convs, shape, DROPOUT) for convs in stacks)
        self.weight = nn.Parameter(torch.empty(in_channels, len(stacks) * HIDDEN))
        nn.init.uniform_(self.weight, -(in_channels**-0.5), in_channels**-0.5)

    def forward(self, batch: GraphBatch) -> Tensor:
        r"""The logits of each GNN, ``[3, C, B]``.

        Args:
            batch (GraphBatch): Some trees.
        """
        tables = (batch.table @ self.weight).chunk(len(self.gnns), dim=1)
        logits = []
        for gnn, table in zip(self.gnns, tables, strict=True):
            assert isinstance(gnn, TreeGNN)
            conv = gnn.convs[0]
            rows = conv.project(dropout(table, DROPOUT, self.training))  # [R, H]
            h = conv.update(batch.aggregate(conv, rows), batch.real[:, : batch.num_internal])
            logits.append(gnn.run_from(h, batch.real, [batch.weights(conv)] * len(gnn.convs))[0])
        return torch.stack(logits).transpose(1, 2)


class GraphBatch:
    r"""Some trees, prepared for :class:`GraphNetworks`, whose first convolutions run on the
    distinct tokens.

    Args:
        trees (TokenTrees): The trees.
        x (torch.Tensor): The scaled features of each of their tokens, ``[m, F]``.
    """

    def __init__(self, trees: TokenTrees, x: Tensor) -> None:
        shape, self.y = trees.shape, trees.y.long()
        used, local = trees.tokens.long().unique(return_inverse=True)
        used = used[used < trees.num_tokens]
        self.table = FeatureTable(x.index_select(0, used))  # [R, F]
        num_rows, self.num_internal = used.numel(), shape.num_internal
        self.real = local < num_rows  # [B, T]
        gcn, sage = TreeGCNConv(1, 1), SAGEConv(1, 1)
        self.norm, self.exists = gcn.weights(self.real, shape), sage.weights(self.real, shape)
        member = _side_by_side(parents_with_children(local, shape), num_rows)  # [B, P, 1 + f]
        self.size = member.shape
        self.norms = _weighted_sums(member, _side_by_side(self.norm, 0.0), num_rows)
        # GraphSAGE has two rows per token: what neighbours add, and what the node itself adds.
        mean = [F.pad(sage.share(part), (1, 0), value=1.0) for part in self.exists]
        is_own = torch.tensor([1, *[0] * (member.size(2) - 1)])
        self.means = _weighted_sums(2 * member + is_own, _side_by_side(mean, 0.0), 2 * num_rows)
        first = member.flatten(0, 1).t()  # [1 + f, B * P]
        self.members = _weighted_sums(first.reshape(-1, 1), torch.ones(first.numel(), 1), num_rows)
        self.parents = _weighted_sums(first[0][:, None], torch.ones(first.size(1), 1), num_rows)
        # Null slots get no attention. That of null parents may be any, as their values are zero.
        is_null = (first == num_rows) & (first[0] < num_rows)
        self.lowered = torch.zeros(first.shape).masked_fill_(is_null, -torch.inf)[..., None]

    def weights(self, conv: TreeConv) -> list[Tensor]:
        r"""What :meth:`TreeConv.weights` returns for these trees."""
        return self.norm if isinstance(conv, TreeGCNConv) else self.exists

    def aggregate(self, conv: TreeConv, rows: Tensor) -> Tensor:
        r"""What a convolution aggregates in each internal slot, ``[B, P, H]``.

        Args:
            conv (TreeConv): The convolution.
            rows (torch.Tensor): The projected features of each distinct token, ``[R, H]``.
        """
        if isinstance(conv, TreeGCNConv):
            out = self.norms @ rows
        elif isinstance(conv, SAGEConv):
            out = self.means @ rows.reshape(2 * rows.size(0), -1)
        else:
            assert isinstance(conv, AttentionConv)
            parts = rows.unflatten(1, (conv.heads, -1))  # [R, heads, H / heads]
            source = (parts * conv.att_source).sum(dim=-1)
            target = (parts * conv.att_target).sum(dim=-1)
            out = _Attention.apply(rows, source, target, self)
        return out.view(*self.size[:2], -1)


class _Attention(torch.autograd.Function):
    r"""The attention-weighted sum of a parent and its children, ``[B * P, H]``.

    The members of a sum are the first dimension, and products with a constant matrix repeat and add
    up values of a head: loops over a few numbers in the last dimension would take most of the time.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, source: Tensor, target: Tensor, batch: GraphBatch
    ) -> Tensor:
        size, heads = (batch.size[2], -1), source.size(1)
        score = (batch.members @ source).view(*size, heads) + batch.parents @ target
        share = (F.leaky_relu(score, SLOPE) + batch.lowered).softmax(dim=0)  # [1 + f, B * P, heads]
        repeat = torch.eye(heads).repeat_interleave(rows.size(1) // heads, dim=1)  # [heads, H]
        values = (batch.members @ rows).view(*size, rows.size(1))
        ctx.batch = batch
        ctx.save_for_backward(score, share, values, repeat)
        return (values * (share @ repeat)).sum(dim=0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        score, share, values, repeat = ctx.saved_tensors
        batch = ctx.batch
        of_share = (values * grad) @ repeat.t()
        of_score = share * (of_share - (share * of_share).sum(dim=0))
        of_score = torch.ops.aten.leaky_relu_backward(of_score, score, SLOPE, False)
        of_values = (share @ repeat).mul_(grad)
        return (
            batch.members.columns(of_values.flatten(0, 1)),
            batch.members.columns(of_score.flatten(0, 1)),
            batch.parents.columns(of_score.sum(dim=0)),
            None,
        )


def _side_by_side(parts: list[Tensor], null: float) -> Tensor:
    r"""Values of the parents and children of all layers, ``[B, P, 1 + f]``, for the largest
    fan-out.
    """
    width = max(part.size(2) for part in parts)
    return torch.cat([F.pad(part, (0, width - part.size(2)), value=null) for part in parts], dim=1)


def _weighted_sums(index: Tensor, weight: Tensor, num_rows: int) -> ConstantMatrix:
    r"""Sums over the last dimension, of rows of a table. Those beyond its end are null."""
    index, weight = index.flatten(0, -2), weight.flatten(0, -2)
    row, slot = (index < num_rows).nonzero().unbind(dim=1)
    shape = (index.size(0), num_rows)
    return ConstantMatrix(row, index[row, slot], weight[row, slot], shape)
