r"""Graph convolutions on trees of one shape, and the products of dense or sparse rows in them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.token_trees import Rows, SparseRows
from torch_geometric_cgt.nn.dropout import dropout

SLOPE = 0.2  # of negative scores of attention


def dropout_rows(x: Rows, p: float, training: bool) -> Rows:
    r"""Dropout of the entries of a table."""
    if isinstance(x, Tensor):
        return dropout(x, p, training)
    return SparseRows(x.column, dropout(x.value, p, training), x.ptr, x.num_columns)


def linear(x: Rows, lin: nn.Linear) -> Tensor:
    r"""Applies a linear map without bias."""
    if isinstance(x, Tensor):
        return lin(x)
    return csr_matmul(x.ptr, x.column, x.value, lin.weight.t())


def pad_null(table: Tensor) -> Tensor:
    r"""Appends a row of zeros: the features of the null token."""
    return F.pad(table, (0, 0, 0, 1))


def csr_matmul(ptr: Tensor, column: Tensor, value: Tensor, dense: Tensor) -> Tensor:
    r"""The product of a sparse CSR matrix and a dense one, ``[n, H]``.

    On the CPU, the gradient of :func:`torch.nn.functional.embedding_bag` with
    respect to the dense matrix takes several times as long as the product.
    The gradient is a product with the transposed sparse matrix, and is
    computed as such here.

    Args:
        ptr (torch.Tensor): Where the entries of each row begin, ``[n + 1]``.
        column (torch.Tensor): The column of each entry, ``[nnz]``.
        value (torch.Tensor): The value of each entry, ``[nnz]``.
        dense (torch.Tensor): The dense matrix, ``[R, H]``.
    """
    if dense.device.type != 'cpu':
        return F.embedding_bag(column, dense, ptr[:-1], mode='sum', per_sample_weights=value)
    return _CSRMatmul.apply(ptr, column, value, dense)


def weighted_sum(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    r"""Weighted sums of the same number of rows each, ``[..., H]``.

    Args:
        table (torch.Tensor): The rows, ``[R, H]``.
        index (torch.Tensor): The rows of each sum, ``[..., m]``.
        weight (torch.Tensor): Their weights, ``[..., m]``.
    """
    if torch.compiler.is_compiling():  # one loop without the gathered rows in memory
        return (F.embedding(index, table) * weight[..., None]).sum(dim=-2)
    ptr = torch.arange(0, index.numel() + 1, index.size(-1), device=index.device)
    out = csr_matmul(ptr, index.reshape(-1), weight.reshape(-1), table)
    return out.view(*index.shape[:-1], table.size(1))


class _CSRMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ptr: Tensor, column: Tensor, value: Tensor, dense: Tensor) -> Tensor:
        dense = dense.contiguous()  # sums of contiguous rows are many times faster
        ctx.save_for_backward(ptr, column, value, dense)
        return F.embedding_bag(column, dense, ptr[:-1], mode='sum', per_sample_weights=value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
        ptr, column, value, dense = ctx.saved_tensors
        grad_value = grad_dense = None
        if ctx.needs_input_grad[3]:  # the transposed matrix: its entries sorted by column
            key, order = column.int().sort()
            row = torch.arange(ptr.numel() - 1).repeat_interleave(ptr.diff())
            grad_dense = F.embedding_bag(
                row.index_select(0, order),
                grad.contiguous(),
                torch.searchsorted(key, torch.arange(dense.size(0), dtype=torch.int32)),
                mode='sum',
                per_sample_weights=value.index_select(0, order),
            )
        if ctx.needs_input_grad[2]:  # PyTorch's own gradient is fast here
            with torch.enable_grad():
                leaf = value.detach().requires_grad_()
                out = F.embedding_bag(column, dense, ptr[:-1], mode='sum', per_sample_weights=leaf)
            (grad_value,) = torch.autograd.grad(out, leaf, grad.contiguous())
        return None, None, grad_value, grad_dense


class TreeConv(nn.Module):
    r"""One message-passing step from the children of a slot to the slot.

    The linear part :meth:`project` comes first and the aggregation second, so
    that the projection of the first layer runs on the distinct rows of a
    batch instead of all slots.

    A parent and its children have weights, ``[B, P, 1 + f]``. Without a
    sampler, they are :obj:`True` for real slots. A sampler gives them
    numbers. Slots that are null or were not sampled have the weight zero.
    """

    def weights(self, real: Tensor, shape: TreeShape) -> list[Tensor]:
        r"""The weights of parents and children for each layer of parents,
        ``[B, P, 1 + f]``.

        Args:
            real (torch.Tensor): Which slots are not null, ``[B, T]``.
            shape (TreeShape): The geometry of the trees.
        """
        return parents_with_children(real, shape)

    def project(self, x: Rows) -> Tensor:
        r"""Maps features ``[..., F]`` to channels ``[..., H]``."""
        raise TypeError(f'{type(self).__name__} must define project()')

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        r"""Aggregates projected parents and children.

        Args:
            h (torch.Tensor): The parents, ``[B, P, H]``.
            children (torch.Tensor): The children, ``[B, P, f, H]``.
            weight (torch.Tensor): Their weights, ``[B, P, 1 + f]``.
        """
        raise TypeError(f'{type(self).__name__} must define aggregate()')

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        r"""The same as :meth:`aggregate`, for parents and children given as
        rows of a table, which are not copied to every slot.

        Args:
            table (torch.Tensor): The projected rows, ``[R + 1, H]``.
            index (torch.Tensor): The row of each parent and of its children,
                ``[B, P, 1 + f]``.
            weight (torch.Tensor): Their weights, ``[B, P, 1 + f]``.
        """
        members = F.embedding(index, table)
        return self.aggregate(members[:, :, 0], members[:, :, 1:], weight)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        r"""Transforms the slots of all layers after the aggregation.

        Args:
            h (torch.Tensor): The slots, ``[B, P, H]``.
            real (torch.Tensor): Which of them are real, ``[B, P]``.
        """
        return h


class LinearConv(TreeConv):
    r"""A weighted sum of a node and its neighbours."""

    def coefficients(self, weight: Tensor) -> Tensor:
        r"""The factors in the sum, ``[B, P, 1 + f]``."""
        return weight.float()

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        factor = self.coefficients(weight)[..., None]
        return h * factor[:, :, 0] + (children * factor[:, :, 1:]).sum(dim=2)

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        return weighted_sum(table, index, self.coefficients(weight))


class PlainMeanConv(LinearConv):
    r"""The mean of a node and its neighbours, without parameters (SGC)."""

    def project(self, x: Rows) -> Tensor:
        return torch.as_tensor(x)  # never the first layer: the input is dense

    def coefficients(self, weight: Tensor) -> Tensor:
        return weight / weight.sum(dim=2, keepdim=True).clamp(min=1)


class MeanConv(PlainMeanConv):
    r"""The mean of a node and its neighbours (GCN)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        return h + self.bias


class SampledMeanConv(MeanConv):
    r"""An estimate of the mean of :class:`MeanConv` (FastGCN, AS-GCN). The
    weights of the sampler contain the denominator.
    """

    def coefficients(self, weight: Tensor) -> Tensor:
        return weight


class TreeGCNConv(SampledMeanConv):
    r"""The layer of :class:`~torch_geometric.nn.GCNConv` on the forest of the
    trees: self-loops and symmetric normalization. The degree of a node is one
    more than the number of its children.

    Args:
        in_channels (int): The number of input features.
        out_channels (int): The number of output features.
    """

    def weights(self, real: Tensor, shape: TreeShape) -> list[Tensor]:
        members = parents_with_children(real, shape)
        degree = torch.cat([layer.sum(dim=2) for layer in members], dim=1)  # [B, internal slots]
        leaves = real[:, shape.num_internal :].float()
        norm = torch.cat([degree.clamp(min=1).rsqrt(), leaves], dim=1) * real
        pairs = parents_with_children(norm, shape)
        return [pair * pair[:, :, :1] for pair in pairs]


class SumConv(LinearConv):
    r"""The sum of a node and its neighbours, followed by a perceptron with
    batch normalisation (GIN).
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden_channels, bias=False)
        self.norm = nn.BatchNorm1d(hidden_channels)
        self.out = nn.Linear(hidden_channels, out_channels)

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        # Null slots must not enter the batch statistics.
        # The number of real slots is not a static shape, and a GPU would wait for it.
        if torch.compiler.is_compiling() or h.device.type != 'cpu':
            normed = masked_batch_norm(self.norm, h, real)
        else:
            normed = torch.zeros_like(h).masked_scatter(real[..., None], self.norm(h[real]))
        return self.out(normed.relu())


class SAGEConv(TreeConv):
    r"""The mean of the neighbours, and a weight matrix of its own for the node
    itself (GraphSAGE, PASS).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, 2 * out_channels, bias=False)  # for neighbours and self
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        mean = (children.chunk(2, dim=-1)[0] * self.share(weight)[..., None]).sum(dim=2)
        return mean + h.chunk(2, dim=-1)[1]

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        others, own = table.chunk(2, dim=-1)
        mean = weighted_sum(others, index[:, :, 1:], self.share(weight))
        return mean + F.embedding(index[:, :, 0], own)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        return h + self.bias

    def share(self, weight: Tensor) -> Tensor:
        r"""The factors of the neighbours in their mean, ``[B, P, f]``."""
        others = weight[:, :, 1:]
        return others / others.detach().sum(dim=2, keepdim=True).clamp(min=1)


class AttentionConv(TreeConv):
    r"""An attention-weighted mean of a node and its neighbours (GAT)."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.att_source = nn.Parameter(torch.empty(heads, out_channels // heads))
        self.att_target = nn.Parameter(torch.empty(heads, out_channels // heads))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.xavier_uniform_(self.att_source)
        nn.init.xavier_uniform_(self.att_target)

    def project(self, x: Rows) -> Tensor:
        return linear(x, self.lin)

    def aggregate(self, h: Tensor, children: Tensor, weight: Tensor) -> Tensor:
        members = torch.cat([h[:, :, None], children], dim=2)
        members = members.unflatten(-1, (self.heads, -1))  # [B, P, 1 + f, heads, H / heads]
        source = (members * self.att_source).sum(dim=-1)
        target = (members[:, :, :1] * self.att_target).sum(dim=-1)
        return (members * self._share(source, target, weight)[..., None]).sum(dim=2).flatten(-2)

    def aggregate_rows(self, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        parts = table.unflatten(-1, (self.heads, -1))  # [R + 1, heads, H / heads]
        source = F.embedding(index, (parts * self.att_source).sum(dim=-1))
        target = F.embedding(index[:, :, :1], (parts * self.att_target).sum(dim=-1))
        share = self._share(source, target, weight).transpose(2, 3)  # [B, P, heads, 1 + f]
        head = torch.arange(self.heads, device=index.device)[:, None]
        part = index[:, :, None] * self.heads + head
        return weighted_sum(parts.flatten(0, 1), part, share).flatten(2)

    def update(self, h: Tensor, real: Tensor) -> Tensor:
        return h + self.bias

    def _share(self, source: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        r"""The attention to each parent and its children, ``[B, P, 1 + f, heads]``."""
        present = weight | ~weight[:, :, :1]  # null parents get any finite value: it is not used
        score = F.leaky_relu(source + target, SLOPE)
        return score.masked_fill(~present[..., None], -torch.inf).softmax(dim=2)


def masked_batch_norm(norm: nn.BatchNorm1d, h: Tensor, real: Tensor) -> Tensor:
    r"""Batch normalization over real slots, ``[B, P, H]``, zero elsewhere. All
    shapes are static.

    Args:
        norm (torch.nn.BatchNorm1d): The parameters and running statistics.
        h (torch.Tensor): The slots, ``[B, P, H]``.
        real (torch.Tensor): Which of them are real, ``[B, P]``.
    """
    running_mean, running_var, steps = norm.running_mean, norm.running_var, norm.num_batches_tracked
    if running_mean is None or running_var is None or steps is None or norm.momentum is None:
        raise ValueError('Expected a BatchNorm1d with running statistics and a momentum')
    weight = real[..., None].to(h.dtype)
    if norm.training:
        count = weight.sum()
        mean = (h * weight).sum(dim=(0, 1)) / count
        var = ((h - mean).square() * weight).sum(dim=(0, 1)) / count
        with torch.no_grad():
            steps.add_(1)
            running_mean.lerp_(mean, norm.momentum)
            running_var.lerp_(var * count / (count - 1), norm.momentum)
    else:
        mean, var = running_mean, running_var
    return ((h - mean) * (var + norm.eps).rsqrt() * norm.weight + norm.bias) * weight


def parents_with_children(value: Tensor, shape: TreeShape) -> list[Tensor]:
    r"""Groups a value per slot, ``[B, T]``, by parents. For each layer of
    parents, the result holds the parent and then its children,
    ``[B, P, 1 + f]``.
    """
    out = []
    for layer, fan_out in enumerate(shape.num_neighbors):
        parents = value[:, shape.layer_slice(layer), None]
        children = value[:, shape.layer_slice(layer + 1)].unflatten(1, (-1, fan_out))
        out.append(torch.cat([parents, children], dim=2))
    return out
