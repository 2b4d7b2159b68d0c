r"""Trees that are prepared for perceptrons on their views: what is the same in every step of their
training is computed once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import linear_view_names, slot_weights
from torch_geometric_cgt.nn.constant_matrix import ConstantMatrix


def linear_maps(shape: TreeShape) -> list[tuple[int, int]]:
    r"""The linear view that each map reads, and the network that its values are added to, numbered
    as in :meth:`~torch_geometric_cgt.data.views.view_names`. Each network of a linear view has one
    map, ``maximum`` one of the root, and ``layers apart`` one per layer.
    """
    num_linear = len(linear_view_names(shape))
    layers = [(layer, num_linear + 1) for layer in range(shape.depth + 1)]
    return [*((view, view) for view in range(num_linear)), (0, num_linear), *layers]


class ViewBatch:
    r"""Some trees, prepared for :class:`ViewNetworks` and :class:`GraphNetworks`.

    If the trees have fewer distinct tokens than features, or if features are sparse, hidden values
    are computed for each token and then combined. Otherwise, features are combined once and for
    all.

    Args:
        trees (TokenTrees): The trees.
        x (torch.Tensor): The scaled features of each of their tokens, ``[m, F]``.
    """

    def __init__(self, trees: TokenTrees, x: Tensor) -> None:
        self.y = trees.y.long()
        used, local = trees.tokens.long().unique(return_inverse=True)
        used = used[used < trees.num_tokens]
        self.tokens = local
        features = x.index_select(0, used)  # [R, F]
        self.table = FeatureTable(features)
        self.maps = linear_maps(trees.shape)
        self.num_networks = 1 + max(network for _, network in self.maps)
        self.num_rows = used.numel()
        self.by_token = self.table.is_sparse or self.num_rows < x.size(1)
        child = local[:, trees.shape.layer_slice(1)]
        is_null = child == self.num_rows  # [B, f]
        # Null slots are never the largest. Their values are zero, which stays if there is no child.
        self.lowered = torch.zeros(is_null.shape).masked_fill_(
            is_null & ~is_null.all(dim=1, keepdim=True), -torch.inf
        )
        weights = slot_weights(local < self.num_rows, trees.shape)  # of each linear view
        parts = [(local[:, slots], weight) for slots, weight in weights]
        if self.by_token:
            self.combine = self._combine(parts)
            self.child = self._rows_of(child, self.num_rows)
            return
        self.views = []  # [B, F] each
        for tokens, weight in parts:
            view = torch.zeros(len(trees), self.num_rows + 1).scatter_add_(1, tokens, weight)
            self.views.append(view[:, : self.num_rows] @ features)
        rows, place = child.unique(return_inverse=True)
        rows = rows[rows < self.num_rows]
        self.child = self._rows_of(place, rows.numel())
        self.child_rows = features[rows]

    def hidden(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        r"""The sum of the maps of each network, ``[B, V, H]``, and the largest value that a child
        of the root has in the map of children, ``[B, H]``. It is zero without children.

        Args:
            weight (torch.Tensor): The maps side by side, first those of :meth:`linear_maps`, then
                the one of children, ``[F, (M + 1) * H]``.
        """
        width = weight.size(1) // (1 + len(self.maps))
        if self.by_token:
            values = self.table @ weight  # [R, (M + 1) * H]
            hidden = (self.combine @ values.view(-1, width)).view(-1, self.num_networks, width)
            of_child = values[:, -width:]
        else:
            hidden = _DenseMaps.apply(weight, self)
            of_child = self.child_rows @ weight[:, -width:]
        return hidden, _Largest.apply(of_child, self.child, self.lowered)

    def _combine(self, parts: list[tuple[Tensor, Tensor]]) -> ConstantMatrix:
        r"""From the values of each token in each map to the sums of each network."""
        entries, num_maps = [], 1 + len(self.maps)
        for place, (view, network) in enumerate(self.maps):
            tokens, weight = parts[view]
            tree, slot = ((tokens < self.num_rows) & (weight != 0)).nonzero().unbind(dim=1)
            column = tokens[tree, slot] * num_maps + place
            entries.append((tree * self.num_networks + network, column, weight[tree, slot]))
        row, column, value = (torch.cat(part) for part in zip(*entries, strict=True))
        shape = (self.y.numel() * self.num_networks, self.num_rows * num_maps)
        return ConstantMatrix(row, column, value, shape)

    @staticmethod
    def _rows_of(index: Tensor, num_rows: int) -> ConstantMatrix:
        r"""The matrix that repeats a row of a table for each slot, or zeros where it is null."""
        index = index.reshape(-1)
        slot = (index < num_rows).nonzero().view(-1)
        shape = (index.numel(), num_rows)
        return ConstantMatrix(slot, index[slot], torch.ones(slot.numel()), shape)


class FeatureTable:
    r"""The features of some tokens.

    Args:
        x (torch.Tensor): The features, dense or sparse, ``[R, F]``.
    """

    def __init__(self, x: Tensor) -> None:
        self.is_sparse = x.layout != torch.strided
        self.rows = ConstantMatrix.from_sparse(x) if self.is_sparse else x

    def __matmul__(self, weight: Tensor) -> Tensor:
        r"""The product with a matrix, ``[R, H]``."""
        return self.rows @ weight


class _DenseMaps(torch.autograd.Function):
    r"""The maps of views that are dense matrices."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, batch: ViewBatch) -> Tensor:
        ctx.batch, ctx.shape = batch, weight.shape
        width = weight.size(1) // (1 + len(batch.maps))
        out = weight.new_zeros(batch.y.numel(), batch.num_networks, width)
        for (view, network), part in zip(batch.maps, weight.split(width, dim=1), strict=False):
            out[:, network].addmm_(batch.views[view], part)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        batch, out = ctx.batch, grad.new_zeros(ctx.shape)
        parts = out.split(grad.size(2), dim=1)
        for (view, network), part in zip(batch.maps, parts, strict=False):
            torch.mm(batch.views[view].t(), grad[:, network], out=part)
        return out, None


class _Largest(torch.autograd.Function):
    r"""The largest value among the slots of each tree, ``[B, H]``. Slots with the same value share
    its gradient.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows_of: ConstantMatrix, lowered: Tensor) -> Tensor:
        slots = (rows_of @ values).view(*lowered.shape, -1) + lowered[..., None]
        largest = slots.amax(dim=1)
        ctx.rows_of = rows_of
        ctx.save_for_backward(slots, largest)
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        slots, largest = ctx.saved_tensors
        share = (slots - largest[:, None]).sign_().add_(1)  # one where it is the largest, else zero
        share *= (grad / share.sum(dim=1))[:, None]
        return ctx.rows_of.columns(share.flatten(0, 1)), None, None


class OutputLayers(torch.autograd.Function):
    r"""A bias, a ReLU, dropout and a linear layer for each network, ``[V, C, B]``.

    Labels come before trees: a softmax over the last dimension takes twenty times as long. All
    gradients are contiguous, which those that PyTorch finds are not.

    Args:
        hidden (torch.Tensor): The hidden values, ``[B, V, H]``.
        of_child (torch.Tensor): What is added to those of ``maximum``, the last network but one,
            ``[B, H]``.
        bias (torch.Tensor): Their bias, ``[V, H]``.
        weight (torch.Tensor): The weights of the linear layers, ``[V, H, C]``.
        out_bias (torch.Tensor): Their bias, ``[V, C, 1]``.
        factor (torch.Tensor, optional): The factors of dropout, ``[B, V, H]``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        of_child: Tensor,
        bias: Tensor,
        weight: Tensor,
        out_bias: Tensor,
        factor: Tensor | None,
    ) -> Tensor:
        active = hidden + bias
        active[:, -2] += of_child
        active.relu_()
        if factor is not None:
            active *= factor
        ctx.save_for_backward(active, weight, factor)
        return torch.baddbmm(out_bias, weight.transpose(1, 2), active.permute(1, 2, 0))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        active, weight, factor = ctx.saved_tensors
        by_tree = grad.transpose(1, 2)  # [V, B, C]
        of_weight = torch.bmm(grad, active.transpose(0, 1)).transpose(1, 2).contiguous()
        out = torch.empty_like(active)
        torch.bmm(by_tree, weight.transpose(1, 2), out=out.transpose(0, 1))
        out = torch.ops.aten.threshold_backward(out, active, 0)
        if factor is not None:
            out *= factor
        return out, out[:, -2], out.sum(dim=0), of_weight, grad.sum(dim=2, keepdim=True), None
