r"""Linear layers whose products oneDNN computes: on AMD processors, it is twice as fast as MKL,
which PyTorch uses for single precision.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# Rows are filled up to a multiple of this, or of a sixteenth of them: oneDNN compiles code for each
# size that it sees.
ROWS = 64
MIN_ROWS = 32  # below, calls cost more than products


def linear_map(layer: nn.Linear, x: Tensor) -> Tensor:
    r"""Applies a linear layer, ``[..., H]``. Products are those of PyTorch up to rounding.

    Args:
        layer (torch.nn.Linear): The layer.
        x (torch.Tensor): The rows, ``[..., F]``.
    """
    if layer._forward_hooks or layer._forward_pre_hooks:
        out: Tensor = layer(x)
        return out
    return linear_rows(x, layer.weight, layer.bias)


def linear_rows(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    r"""The same as :func:`torch.nn.functional.linear`, see :meth:`linear_map`.

    Args:
        x (torch.Tensor): The rows, ``[..., F]``.
        weight (torch.Tensor): The weights, ``[H, F]``.
        bias (torch.Tensor): The bias, ``[H]``.
    """
    if not _is_for_one_dnn(x, weight):
        return F.linear(x, weight, bias)
    out: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)
    return out.view(*x.shape[:-1], weight.size(0))


def _is_for_one_dnn(x: Tensor, weight: Tensor) -> bool:
    return bool(
        _has_product()
        and x.device.type == 'cpu'
        and x.dtype == weight.dtype == torch.float
        and x.numel() >= MIN_ROWS * x.size(-1)
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled('cpu')
    )


@cache
def _has_product() -> bool:
    r"""Whether this build of PyTorch has the product. It is not in its public interface."""
    return hasattr(torch.ops.mkldnn, '_linear_pointwise')


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""The product of rows with a transposed matrix, ``[N, H]``."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, 'none', [], '')
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        num_rows = x.size(0)
        x = _filled_up(x)
        ctx.num_rows = num_rows
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)[:num_rows]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_bias = grad.sum(dim=0) if ctx.needs_input_grad[2] else None
        grad = _filled_up(grad)
        of_x = _product(grad, weight.t())[: ctx.num_rows] if ctx.needs_input_grad[0] else None
        of_weight = _product(grad.t(), x.t()) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, of_bias


def _filled_up(x: Tensor) -> Tensor:
    r"""Adds rows of zeros, such that there are few different numbers of rows."""
    missing = -x.size(0) % max(ROWS, 1 << max(0, x.size(0).bit_length() - 4))
    return F.pad(x, (0, 0, 0, missing)) if missing else x.contiguous()
