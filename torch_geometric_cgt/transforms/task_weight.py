r"""Calibration of the task weight: at it, quantization keeps the accuracy of every view."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TokenTrees, TreeShape
from torch_geometric_cgt.data.view_probes import probe_table, view_scores
from torch_geometric_cgt.quantizer import cluster_means
from torch_geometric_cgt.sampler import sample_trees

WEIGHTS = (0.0, 0.4, 0.8, 1.6, 3.2)
NUM_ROOTS = 2_500  # maximum number of trees whose views are compared
SHAPE = TreeShape.of([5, 5])


def calibrate_task_weight(
    x: Tensor,
    edge_index: Tensor | None,
    y: Tensor,
    quantized: Callable[[float], Tensor],
    seed: int = 0,
    train_mask: Tensor | None = None,
) -> float:
    r"""Finds the weight at which linear probes on views of quantized trees are as
    accurate as on the original ones.

    The views are those of :meth:`~torch_geometric_cgt.data.views.tree_views`:
    the root alone, its neighbours alone, averages over one and two hops, the
    maximum, and layers side by side. The mean squared difference of all scores
    decides. A probe learns from the training nodes and is tested on all others,
    as a GNN is: the accuracy lost to a biased training set must stay lost on
    the quantized graph.

    Args:
        x (torch.Tensor): The features, ``[N, F]``.
        edge_index (torch.Tensor, optional): The edges. Without them, trees are
            roots.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        quantized (callable): Returns the cluster of each node at a weight.
        seed (int, optional): The seed of the trees. (default: :obj:`0`)
        train_mask (torch.Tensor, optional): The training nodes, ``[N]``. By
            default, every second root is trained on. (default: :obj:`None`)
    """
    num_nodes, rng = y.numel(), torch.Generator().manual_seed(seed)
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.long)
    graph = InNeighbors.from_edge_index(edge_index.cpu(), num_nodes)
    root = (y >= 0).nonzero().view(-1)
    root = root[torch.randperm(root.numel(), generator=rng)[:NUM_ROOTS]]
    tree = sample_trees(graph, root, SHAPE, rng)
    split = torch.zeros_like(root) if train_mask is None else train_mask[root].long()
    trees = TokenTrees(
        tree.masked_fill(tree < 0, num_nodes), y[root], split, num_nodes, int(y.max()) + 1, SHAPE
    )
    z = probe_table(x, seed).cpu()
    aim = view_scores(trees, z)

    def error(weight: float) -> float:
        cluster = quantized(weight)
        num_clusters = int(cluster.max()) + 1
        found = view_scores(
            trees.map_tokens(cluster, num_clusters), cluster_means(z, cluster, num_clusters)
        )
        return sum((found[name] - aim[name]) ** 2 for name in aim)

    return min(WEIGHTS, key=error)
