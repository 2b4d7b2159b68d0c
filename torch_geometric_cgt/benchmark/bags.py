r"""Sums of weighted rows of a table, with a gradient that is as quick as the sum."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def sum_bags(table: Tensor, index: Tensor, ptr: Tensor, weight: Tensor) -> Tensor:
    r"""Sums weighted rows without a copy of each, ``[n, H]``.

    On the CPU, the gradient of :func:`torch.nn.functional.embedding_bag` takes
    several times as long as the sum itself. It is a sum of weighted rows, too:
    here it is computed as such.

    Args:
        table (torch.Tensor): The rows, ``[R, H]``.
        index (torch.Tensor): The rows of all sums, ``[nnz]``.
        ptr (torch.Tensor): Where each sum begins, and behind them all
            :math:`nnz`, ``[n + 1]``.
        weight (torch.Tensor): The weight of each row, ``[nnz]``.
    """
    if table.device.type != 'cpu':
        return F.embedding_bag(index, table, ptr[:-1], mode='sum', per_sample_weights=weight)
    return _SumBags.apply(table, index, ptr, weight)


def weighted_sum(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    r"""Sums of equally many weighted rows each, ``[..., H]``.

    Args:
        table (torch.Tensor): The rows, ``[R, H]``.
        index (torch.Tensor): The rows of each sum, ``[..., m]``.
        weight (torch.Tensor): Their weights, ``[..., m]``.
    """
    ptr = torch.arange(0, index.numel() + 1, index.size(-1), device=index.device)
    out = sum_bags(table, index.reshape(-1), ptr, weight.reshape(-1))
    return out.view(*index.shape[:-1], table.size(1))


class _SumBags(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, ptr: Tensor, weight: Tensor) -> Tensor:
        table = table.contiguous()  # rows in one piece are summed many times faster
        ctx.save_for_backward(table, index, ptr, weight)
        return F.embedding_bag(index, table, ptr[:-1], mode='sum', per_sample_weights=weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, Tensor | None]:
        table, index, ptr, weight = ctx.saved_tensors
        grad_table = grad_weight = None
        if ctx.needs_input_grad[0]:
            key, order = index.int().sort()  # for each row of the table, the bags it is in
            bag = torch.arange(ptr.numel() - 1).repeat_interleave(ptr.diff())
            grad_table = F.embedding_bag(
                bag.index_select(0, order),
                grad.contiguous(),
                torch.searchsorted(key, torch.arange(table.size(0), dtype=torch.int32)),
                mode='sum',
                per_sample_weights=weight.index_select(0, order),
            )
        if ctx.needs_input_grad[3]:
            with torch.enable_grad():  # of this one, PyTorch's own is quick
                leaf = weight.detach().requires_grad_()
                out = F.embedding_bag(index, table, ptr[:-1], mode='sum', per_sample_weights=leaf)
            (grad_weight,) = torch.autograd.grad(out, leaf, grad.contiguous())
        return grad_table, None, None, grad_weight
