r"""Calibration of the task weight by trial clusterings: it keeps the accuracy of every view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TokenTrees, TreeShape
from torch_geometric_cgt.data.token_trees import sample_of_splits
from torch_geometric_cgt.nn.view_networks import network_scores
from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer
from torch_geometric_cgt.quantizer.feature_space import task_space
from torch_geometric_cgt.quantizer.kmeans_steps import centers_and_sizes, nearest_center
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import rows_per_block

WEIGHTS = (0.0, 0.4, 0.8, 1.6, 3.2)
NUM_ROOTS, SPLIT_ROOTS = 2_500, 500  # whose trees are compared: about so many, of a split at least
NUM_DRAWS = 2  # trees of each root; scores are averaged over them
TOLERANCE = 5e-5  # of the mean squared difference of scores, which vary by 0.007 by chance
TRIAL_ROWS = 50_000  # Enough rows to calibrate the task weight.
SHAPE = TreeShape.of([5, 5])
T = TypeVar('T')
K = TypeVar('K')


def calibrate_task_weight(
    x: Tensor,
    edge_index: Tensor | None,
    y: Tensor,
    quantized: Callable[[float], Tensor],
    seed: int = 0,
    split: Tensor | None = None,
    world: World | None = None,
    rows: World | None = None,
    assign: Callable[[float, Tensor], Tensor] | None = None,
) -> float:
    r"""Finds the weight at which networks on views of quantized trees are as
    accurate as on the original ones.

    The views are those of :meth:`~torch_geometric_cgt.data.views.tree_views`:
    the root alone, its neighbours alone, averages over one and two hops, the
    maximum, and layers side by side. The mean squared difference of all scores
    decides. Of weights that are equally good, it is the smallest. A network
    learns from the training nodes and is tested on others, as a GNN is: the
    accuracy lost to a biased training set must stay lost on the quantized graph.

    Args:
        x (torch.Tensor): The features, ``[N, F]``, or those of the share of this
            process.
        edge_index (torch.Tensor, optional): The edges. Without them, trees are
            roots.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        quantized (callable): Returns the cluster of each node at a weight.
        seed (int, optional): The seed of the trees. (default: :obj:`0`)
        split (torch.Tensor, optional): The split code of each node, ``[N]``, see
            :meth:`~torch_geometric_cgt.data.split_of`. By default, every second
            root is trained on. (default: :obj:`None`)
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
    split = torch.zeros_like(y) if split is None else split
    tree, root = world.by_first(lambda: _trees(edge_index, y, split, seed))
    code = split[root]
    node, token = tree.unique(return_inverse=True)  # the first one is -1 if there are null slots
    is_null = int(bool((node < 0).any()))
    node, token = node[is_null:], token - is_null
    token = token.masked_fill(token < 0, node.numel())
    sizes = (node.numel(), int(y.max()) + 1, SHAPE)
    draws = [TokenTrees(part, y[root], code, *sizes) for part in token.chunk(NUM_DRAWS)]
    own = rows.share(y.numel())
    mine = node[(node >= own.start) & (node < own.stop)] - own.start
    turns = WEIGHTS[world.rank :: world.size]  # the weights that this process tries
    original = _all_rows(x, mine, rows)
    scores: dict[float | None, dict[str, float]] = {}  # None: of the original features
    if world.rank == world.size - 1:  # this process tries the fewest weights
        scores[None] = _scores(draws, original)
    del original

    found = _merged(world, {weight: quantized(weight) for weight in turns})
    for weight in WEIGHTS if rows.size > 1 else turns:
        cluster = found[weight] if assign is None else assign(weight, found[weight])
        num_clusters = 1 + max(rows.gather(int(cluster.max()) if cluster.numel() else 0))
        means, _ = centers_and_sizes(x, cluster.to(x.device), num_clusters, rows)
        of_node = rows.concatenate(cluster[mine])
        if weight in turns:
            mapped = [trees.map_tokens(of_node, num_clusters) for trees in draws]
            scores[weight] = _scores(mapped, means.float().cpu())
    scores = _merged(world, scores)
    aim = scores[None]
    return smallest_good_weight(
        {w: sum((scores[w][view] - aim[view]) ** 2 for view in aim) / len(aim) for w in WEIGHTS}
    )


def smallest_good_weight(error: dict[float, float]) -> float:
    r"""The smallest weight whose error is the least one, up to :obj:`TOLERANCE`."""
    return min(weight for weight in error if error[weight] <= min(error.values()) + TOLERANCE)


def _trees(edge_index: Tensor | None, y: Tensor, split: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    r"""Samples trees of some labelled nodes, all draws one after the other, and returns these
    nodes as well.
    """
    num_nodes, rng = y.numel(), torch.Generator().manual_seed(seed)
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.long)
    root = (y >= 0).nonzero().view(-1)
    root = root[sample_of_splits(split[root], NUM_ROOTS, SPLIT_ROOTS, rng)]
    near = InNeighbors.into(edge_index.cpu(), num_nodes, root)
    graph = InNeighbors.into(edge_index.cpu(), num_nodes, torch.cat([root, near.source]))
    return sample_trees(graph, root.repeat(NUM_DRAWS), SHAPE, rng), root


def _scores(draws: Sequence[TokenTrees], table: Tensor) -> dict[str, float]:
    r"""The score of each view, averaged over the draws of trees."""
    found = [network_scores(trees, table, seed=draw) for draw, trees in enumerate(draws)]
    return {view: sum(scores[view] for scores in found) / len(found) for view in found[0]}


def _all_rows(x: Tensor, index: Tensor, rows: World) -> Tensor:
    r"""Some rows of each process, one process after the other, dense or sparse."""
    chosen = x if x.layout == torch.strided else x.to_sparse_coo()
    chosen = chosen.index_select(0, index.to(x.device)).cpu()
    if rows.size == 1:
        return chosen
    if chosen.layout == torch.strided:
        return rows.concatenate(chosen)
    chosen = chosen.coalesce()
    counts = rows.gather(index.numel())
    row, column = chosen.indices()
    row = rows.concatenate(row + sum(counts[: rows.rank]))
    entries = torch.stack([row, rows.concatenate(column)])
    shape = (sum(counts), x.size(1))
    return torch.sparse_coo_tensor(entries, rows.concatenate(chosen.values()), shape)


def _merged(world: World, found: dict[K, T]) -> dict[K, T]:
    r"""What all processes found."""
    return {key: value for part in world.gather(found) for key, value in part.items()}


def sharing(world: World, num_nodes: int) -> World:
    r"""The processes, if each of them shall hold a share of the rows; with few rows, a world of
    one process.
    """
    return world if num_nodes > TRIAL_ROWS else World()


class TrialClusterings:
    r"""Clusterings to judge task weights by, which are not released. If there are many rows, a
    sample of them is clustered, and all rows go to the nearest centre.

    Args:
        z (torch.Tensor): The reduced features, ``[N, D]``, or those of the share of this process.
        probabilities (numpy.ndarray): The class probabilities of the same rows.
        moments (tuple[torch.Tensor, torch.Tensor]): The centre and the scale of all rows.
        y (torch.Tensor): The label of every row of all processes.
        num_clusters (int): The number of clusters of all rows.
        solver (callable): Returns a quantizer for a number of clusters.
        seed (int): The seed of the sample.
        rows (World): The processes that hold a share of the rows each.
    """

    def __init__(
        self,
        z: Tensor,
        probabilities: np.ndarray,
        moments: tuple[Tensor, Tensor],
        y: Tensor,
        num_clusters: int,
        solver: Callable[[int], KAnonymousQuantizer],
        seed: int,
        rows: World,
    ) -> None:
        self.z, self.probabilities, self.moments = z, probabilities, moments
        self.num_clusters, self.solver, self.rows = num_clusters, solver, rows
        self.y, self.num_rows = y, y.numel()
        self.sample: tuple[Tensor, np.ndarray] | None = None
        if self.num_rows > TRIAL_ROWS:
            rng = torch.Generator().manual_seed(seed)
            index = torch.randperm(self.num_rows, generator=rng)[:TRIAL_ROWS]
            own = rows.share(self.num_rows)
            if rows.size > 1:
                index = index.sort().values  # each process adds a block of rows
            self.y = y[index]
            mine = index[(index >= own.start) & (index < own.stop)] - own.start
            chosen = torch.from_numpy(probabilities)[mine]
            self.sample = rows.concatenate(z[mine]), rows.concatenate(chosen).numpy()
            self.num_clusters = max(1, self.num_clusters * TRIAL_ROWS // self.num_rows)

    def find(self, weight: float) -> Tensor:
        r"""The cluster of each row; with shares of rows, the centres."""
        solver = self.solver(self.num_clusters)
        if self.sample is None:
            space = task_space(self.z, self.probabilities, weight, self.moments)
            return torch.from_numpy(solver.fit(space, self.y).labels_)
        solver.fit(task_space(*self.sample, weight, self.moments), self.y)
        centers = torch.from_numpy(solver.cluster_centers_)
        return centers if self.rows.size > 1 else self.assign(weight, centers)

    def assign(self, weight: float, centers: Tensor) -> Tensor:
        r"""The nearest centre of each row of this process, without those of no row at all."""
        step = rows_per_block(max(centers.shape))
        nearest = torch.cat(
            [
                nearest_center(task_space(z, probabilities, weight, self.moments), centers)
                for z, probabilities in zip(
                    self.z.split(step), _blocks(self.probabilities, step), strict=True
                )
            ]
        )
        counts = self.rows.sum(torch.bincount(nearest, minlength=centers.size(0)))
        return ((counts > 0).cumsum(0) - 1)[nearest]


def _blocks(values: np.ndarray, step: int) -> list[np.ndarray]:
    return [values[start : start + step] for start in range(0, len(values), step)]
