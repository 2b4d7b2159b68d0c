r"""Calibration of the task weight: at it, quantization keeps the accuracy of every view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TokenTrees, TreeShape
from torch_geometric_cgt.data.views import NUM_COMPONENTS, probe_table, view_scores
from torch_geometric_cgt.quantizer import cluster_means
from torch_geometric_cgt.quantizer.kmeans_steps import centers_and_sizes
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.linear import PrincipalComponents

WEIGHTS = (0.0, 0.4, 0.8, 1.6, 3.2)
NUM_ROOTS = 2_500  # maximum number of trees whose views are compared
SHAPE = TreeShape.of([5, 5])
T = TypeVar('T')
K = TypeVar('K')


def calibrate_task_weight(
    x: Tensor,
    edge_index: Tensor | None,
    y: Tensor,
    quantized: Callable[[float], Tensor],
    seed: int = 0,
    train_mask: Tensor | None = None,
    world: World | None = None,
    rows: World | None = None,
    assign: Callable[[float, Tensor], Tensor] | None = None,
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
        x (torch.Tensor): The features, ``[N, F]``, or those of the share of this
            process.
        edge_index (torch.Tensor, optional): The edges. Without them, trees are
            roots.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        quantized (callable): Returns the cluster of each node at a weight.
        seed (int, optional): The seed of the trees. (default: :obj:`0`)
        train_mask (torch.Tensor, optional): The training nodes, ``[N]``. By
            default, every second root is trained on. (default: :obj:`None`)
        world (World, optional): The processes, each of which tries some of the
            weights. (default: :obj:`None`)
        rows (World, optional): The processes that hold a share of the rows each.
            By default, every process holds all of them. (default: :obj:`None`)
        assign (callable, optional): Called by all processes as
            :obj:`assign(weight, found)` with what :obj:`quantized` returned in
            one of them. Returns the cluster of each row of this process. By
            default, :obj:`found` holds the clusters. (default: :obj:`None`)
    """
    world, rows = world or World(), rows or World()
    tree, root = world.by_first(lambda: _trees(edge_index, y, seed))
    split = torch.zeros_like(root) if train_mask is None else train_mask[root].long()
    node, token = tree.unique(return_inverse=True)  # the first one is -1 if there are null slots
    is_null = int(bool((node < 0).any()))
    node, token = node[is_null:], token - is_null
    trees = TokenTrees(
        token.masked_fill(token < 0, node.numel()),
        y[root],
        split,
        node.numel(),
        int(y.max()) + 1,
        SHAPE,
    )
    own = rows.share(y.numel())
    mine = node[(node >= own.start) & (node < own.stop)] - own.start
    views = _ProbedRows(x, seed, rows)
    turns = WEIGHTS[world.rank :: world.size]  # the weights that this process tries
    original = rows.concatenate(views.of_rows(mine))
    scores: dict[float | None, dict[str, float]] = {}  # None: of the original features
    if world.rank == world.size - 1:  # this process tries the fewest weights
        scores[None] = view_scores(trees, original)

    found = _merged(world, {weight: quantized(weight) for weight in turns})
    for weight in WEIGHTS if rows.size > 1 else turns:
        cluster = found[weight] if assign is None else assign(weight, found[weight])
        num_clusters = 1 + max(rows.gather(int(cluster.max()) if cluster.numel() else 0))
        means, of_node = views.means(cluster, num_clusters), rows.concatenate(cluster[mine])
        if weight in turns:
            scores[weight] = view_scores(trees.map_tokens(of_node, num_clusters), means)
    scores = _merged(world, scores)
    aim = scores[None]
    error = {
        weight: sum((scores[weight][name] - aim[name]) ** 2 for name in aim) for weight in WEIGHTS
    }
    return min(WEIGHTS, key=error.__getitem__)


def _trees(edge_index: Tensor | None, y: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    r"""Samples trees of some labelled nodes, and returns these as well."""
    num_nodes, rng = y.numel(), torch.Generator().manual_seed(seed)
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.long)
    root = (y >= 0).nonzero().view(-1)
    root = root[torch.randperm(root.numel(), generator=rng)[:NUM_ROOTS]]
    near = InNeighbors.into(edge_index.cpu(), num_nodes, root)
    graph = InNeighbors.into(edge_index.cpu(), num_nodes, torch.cat([root, near.source]))
    return sample_trees(graph, root, SHAPE, rng), root


class _ProbedRows:
    r"""The features that probes see: principal components of rows and of cluster means."""

    def __init__(self, x: Tensor, seed: int, rows: World) -> None:
        self.x, self.rows = x, rows
        if rows.size == 1:
            self.table = probe_table(x, seed).cpu()
        else:  # components of means are means of components, so that rows need no copy
            self.components = PrincipalComponents.find(x, NUM_COMPONENTS, seed, rows)

    def of_rows(self, index: Tensor) -> Tensor:
        if self.rows.size == 1:
            return self.table[index]
        chosen = self.x if self.x.layout == torch.strided else self.x.to_sparse_coo()
        return self.components.project(chosen.index_select(0, index)).float()

    def means(self, cluster: Tensor, num_clusters: int) -> Tensor:
        if self.rows.size == 1:
            return cluster_means(self.table, cluster, num_clusters)
        means, _ = centers_and_sizes(self.x, cluster, num_clusters, self.rows)
        dtype = self.components.directions.dtype
        return self.components.project(means.to(dtype)).float()


def _merged(world: World, found: dict[K, T]) -> dict[K, T]:
    r"""What all processes found."""
    return {key: value for part in world.gather(found) for key, value in part.items()}
