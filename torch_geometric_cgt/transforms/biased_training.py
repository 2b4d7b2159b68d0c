r"""Biased training: training nodes that are close to each other in the graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import add_remaining_self_loops, to_undirected

from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.data.graph_checks import check_edges
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.rows import rows_per_block

TOLERANCE = 1e-6  # Of the scores, whose sum is of the order of one.


@functional_transform('biased_training')
class BiasedTraining(BaseTransform):
    r"""Chooses new training nodes close to a few random seed nodes, as in the
    `"Shift-Robust GNNs" <https://arxiv.org/abs/2108.01099>`_ paper and
    the fourth scenario of the CGT paper (functional name:
    :obj:`biased_training`).

    Closeness is the personalised PageRank :math:`\alpha (\mathbf{I} - (1 -
    \alpha) \mathbf{\tilde{A}})^{-1}` from the seeds of a label, on the
    undirected graph. For each label, the nodes with the largest scores become
    training nodes, as many as :obj:`data.train_mask` had of that label. The
    number of training nodes and their label histogram do not change. Nodes
    that the seeds do not reach come last, in random order.

    Validation and test nodes are drawn uniformly from the remaining labelled
    nodes, as many as there were before. Their random order does not depend on
    :math:`\alpha`, so that nearly the same nodes are tested for all values. The
    graph needs an unbiased split, e.g. from
    :class:`~torch_geometric.transforms.RandomNodeSplit`.

    Args:
        alpha (float, optional): The decay of closeness with distance, between
            zero and one. Larger values give a more local and more biased
            training set. With :obj:`None`, training nodes are drawn uniformly
            per label, for comparison.
        num_seeds (int, optional): The number of seed nodes per label.
            (default: :obj:`1`)
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
    """

    def __init__(self, alpha: float | None, num_seeds: int = 1, seed: int = 0) -> None:
        if alpha is not None and not 0 < alpha < 1:
            raise ValueError(f"'alpha' must be None or lie between 0 and 1 (got {alpha})")
        if num_seeds < 1:
            raise ValueError(f"'num_seeds' must be at least 1 (got {num_seeds})")
        self.alpha = alpha
        self.num_seeds = num_seeds
        self.seed = seed

    def forward(self, data: Data) -> Data:
        edge_index, y = check_edges(data), _check_labels(data)
        num_nodes, num_classes = y.numel(), int(y.max()) + 1
        count = {name: int(data[name].sum()) for name in MASKS if name in data}
        per_label = torch.bincount(y[data.train_mask.cpu() & (y >= 0)], minlength=num_classes)

        rng = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(num_nodes, generator=rng)
        order = order[y[order] >= 0]  # All labelled nodes, independent of alpha.
        members = [order[y[order] == label] for label in range(num_classes)]
        train_mask = torch.zeros(num_nodes, dtype=torch.bool)
        if self.alpha is None:
            for nodes, size in zip(members, per_label.tolist(), strict=True):
                train_mask[nodes[:size]] = True
        else:
            start = torch.zeros(num_nodes, num_classes)
            for label, nodes in enumerate(members):
                start[nodes[: self.num_seeds], label] = 1.0
            score = personalized_pagerank(edge_index.cpu(), start, self.alpha)
            for label, (nodes, size) in enumerate(zip(members, per_label.tolist(), strict=True)):
                # The sort is stable, so equal scores stay in random order.
                best = score[nodes, label].argsort(descending=True, stable=True)[:size]
                train_mask[nodes[best]] = True

        # Uniform training nodes are at the start of the order, so test nodes come from its end.
        rest = order[~train_mask[order]].flip(0)
        data.train_mask = train_mask.to(edge_index.device)
        first = 0
        for name in ('test_mask', 'val_mask'):
            if name in count:
                mask = torch.zeros(num_nodes, dtype=torch.bool)
                mask[rest[first : first + count[name]]] = True
                if int(mask.sum()) < count[name]:
                    raise SourceError(
                        f"There are not enough labelled nodes for a '{name}' of {count[name]} "
                        f'and {int(train_mask.sum())} training nodes (got {order.numel()})'
                    )
                data[name] = mask.to(edge_index.device)
                first += count[name]
        return data

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(alpha={self.alpha}, num_seeds={self.num_seeds}, '
            f'seed={self.seed})'
        )


def personalized_pagerank(edge_index: Tensor, start: Tensor, alpha: float) -> Tensor:
    r"""Returns the personalised PageRank :math:`\alpha (\mathbf{I} - (1 - \alpha)
    \mathbf{\tilde{A}})^{-1} \mathbf{S}` with :math:`\mathbf{\tilde{A}} =
    \mathbf{D}^{-1/2} (\mathbf{A} + \mathbf{I}) \mathbf{D}^{-1/2}` of the
    undirected graph, ``[N, C]``.

    This is power iteration with Chebyshev acceleration. Its number of steps
    grows with :math:`1 / \sqrt{\alpha}` instead of :math:`1 / \alpha`.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        start (torch.Tensor): The columns :math:`\mathbf{S}` to start from,
            ``[N, C]``.
        alpha (float): The probability of a restart.
    """
    num_nodes, decay = start.size(0), 1 - alpha
    edge_index, _ = add_remaining_self_loops(
        to_undirected(edge_index, num_nodes=num_nodes), num_nodes=num_nodes
    )
    source, target = edge_index
    norm = torch.bincount(target, minlength=num_nodes).rsqrt()[:, None]

    def step(p: Tensor) -> Tensor:
        total, scaled = torch.zeros_like(p), p * norm
        block = rows_per_block(p.size(1))
        for first in range(0, source.numel(), block):  # A block of edges at a time.
            part = slice(first, first + block)
            total.index_add_(0, target[part], scaled[source[part]])
        return decay * norm * total + alpha * start

    rate = decay / (1 + math.sqrt(1 - decay**2))  # The factor of the error per step.
    num_steps = math.ceil(math.log(TOLERANCE) / math.log(rate))
    before, p, weight = start, step(start), 2.0
    for _ in range(num_steps):
        weight = 1 / (1 - decay**2 * weight / 4)
        before, p = p, before + weight * (step(p) - before)
    return p.clamp(min=0)


def _check_labels(data: Data) -> Tensor:
    r"""Returns the labels, and raises an error if labels or masks are invalid."""
    y, num_nodes = data.y, int(data.num_nodes or 0)
    if y is None or y.dim() != 1 or y.is_floating_point() or y.numel() != num_nodes:
        raise SourceError("The graph needs one integer label 'y' per node")
    if 'train_mask' not in data:
        raise SourceError(
            "The graph has no 'train_mask': split it first, e.g. with "
            "'torch_geometric.transforms.RandomNodeSplit'"
        )
    for name in MASKS:
        if name in data and (data[name].shape != y.shape or data[name].dtype != torch.bool):
            raise SourceError(
                f"'{name}' must be a mask of shape [{num_nodes}] "
                f'(got {data[name].dtype} of shape {list(data[name].shape)})'
            )
    if not bool((y[data.train_mask] >= 0).any()):
        raise SourceError("No labelled node is in 'train_mask'")
    return y.cpu()
