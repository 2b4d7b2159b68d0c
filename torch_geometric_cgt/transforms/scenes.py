r"""Scenes: clusters of roots with similar two-hop neighbourhoods."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors
from torch_geometric_cgt.data.in_neighbors import average_rows, smooth
from torch_geometric_cgt.quantizer import FlowKMeans, reduce_features
from torch_geometric_cgt.quantizer.feature_space import (
    center_and_scale,
    out_of_fold_probabilities,
    task_space,
)
from torch_geometric_cgt.transforms.task_weight import sharing
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.scratch import Scratch

NUM_COMPONENTS = 64
COLUMNS = 8  # that every process holds of all nodes at a time
TASK_WEIGHT = 2.0  # of class probabilities, relative to averaged features of unit variance


def find_scenes(
    cluster: Tensor,
    codebook: Tensor,
    graph: InNeighbors,
    root: Tensor,
    y: Tensor,
    num_scenes: int,
    k: int,
    seed: int = 0,
    world: World | None = None,
    scratch: Scratch | None = None,
) -> Tensor:
    r"""Clusters roots with similar two-hop neighbourhoods into scenes.

    Each root is described by the mean of the codebook rows in its two-hop
    neighbourhood and by the class probabilities of a linear model. The input of
    the linear model is the codebook row of the root, the mean of its neighbours
    and the two-hop mean.

    Class probabilities are predicted out of fold. A root whose neighbourhood
    resembles that of another label is therefore in a scene of that other label.

    Args:
        cluster (torch.Tensor): The cluster of each node, ``[N]``.
        codebook (torch.Tensor): The mean feature vectors, ``[m, F]``.
        graph (InNeighbors): The neighbours of each node.
        root (torch.Tensor): The roots, ``[n]``.
        y (torch.Tensor): The label of each root, ``[n]``. Roots with a negative
            label do not train the linear model.
        num_scenes (int): The number of scenes.
        k (int): The minimum number of roots per scene.
        seed (int, optional): The seed of all draws. (default: :obj:`0`)
        world (World, optional): The processes, all of which must call this
            function. With more than 50,000 roots, they share the work.
            (default: :obj:`None`)
        scratch (Scratch, optional): Where several processes keep averages of large
            graphs. The result does not depend on it. (default: in memory)

    Returns:
        The scene of each root, ``[n]``.
    """
    world = world or World()
    if sharing(world, root.numel()).size == 1:
        args = (cluster, codebook, graph, root, y, num_scenes, k, seed)
        return world.by_first(lambda: _find_alone(*args))
    z = world.by_first(lambda: reduce_features(codebook, NUM_COMPONENTS, seed))
    own = world.share(root.numel())
    mine = root[own]
    near, around = _neighbourhoods(cluster, z, graph, mine, world, scratch)
    if bool((y >= 0).any()):
        known = _Known(z, cluster, mine, near, around)
        probabilities = out_of_fold_probabilities(known, y, seed=seed, world=world, scratch=scratch)
        del known, near
        moments = center_and_scale(around, world)
        around = task_space(around, probabilities, TASK_WEIGHT, moments, scratch)
        del probabilities
    found = FlowKMeans(num_scenes, k, random_state=seed, world=world).fit(around)
    return world.concatenate(torch.from_numpy(found.labels_).long())


class _Known:
    r"""What the linear model sees of each root, put together for some roots at a time."""

    def __init__(
        self, z: Tensor, cluster: Tensor, root: Tensor, near: Tensor, around: Tensor
    ) -> None:
        self.z, self.cluster, self.root = z, cluster, root
        self.near, self.around = near, around

    def __getitem__(self, index: Any) -> Tensor:
        own = self.z[self.cluster[self.root[index]].long()]
        return torch.cat([own, self.near[index], self.around[index]], dim=1)


def _neighbourhoods(
    cluster: Tensor,
    z: Tensor,
    graph: InNeighbors,
    root: Tensor,
    world: World,
    scratch: Scratch | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The means over one and two hops around the roots of this process, ``[n, D]`` each.

    Each process averages over the neighbours of its share of the nodes. All processes need all of
    these averages for the second hop, and get them a few columns at a time.
    """
    node = torch.arange(graph.num_nodes)[world.share(graph.num_nodes)]
    scratch = scratch or Scratch()
    mine = scratch.empty((node.numel(), z.size(1)), z.dtype)
    average_rows(z, graph, node, cluster, mine)
    near, around = (scratch.empty((root.numel(), z.size(1)), z.dtype) for _ in range(2))
    for columns in torch.arange(z.size(1)).split(COLUMNS):
        table = world.concatenate(mine[:, columns])
        near[:, columns] = table[root]
        around[:, columns] = average_rows(table, graph, root)
    return near, around


def _find_alone(
    cluster: Tensor,
    codebook: Tensor,
    graph: InNeighbors,
    root: Tensor,
    y: Tensor,
    num_scenes: int,
    k: int,
    seed: int,
) -> Tensor:
    r"""Finds scenes in one process."""
    z = reduce_features(codebook, NUM_COMPONENTS, seed)
    own = z[cluster.long()]
    near = smooth(own, graph, 1)
    around = smooth(near, graph, 1)[root]
    if bool((y >= 0).any()):
        known = torch.cat([own[root], near[root], around], dim=1)
        around = task_space(around, out_of_fold_probabilities(known, y, seed=seed), TASK_WEIGHT)
    found = FlowKMeans(num_scenes, k, random_state=seed).fit(around)
    return torch.from_numpy(found.labels_).long()
