r"""Scenes: clusters of roots with similar two-hop neighbourhoods."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors
from torch_geometric_cgt.data.in_neighbors import smooth
from torch_geometric_cgt.quantizer import FlowKMeans, reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import out_of_fold_probabilities, task_space

NUM_COMPONENTS = 64
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

    Returns:
        The scene of each root, ``[n]``.
    """
    z = reduce_features(codebook, NUM_COMPONENTS, seed)
    own = z[cluster.long()]
    near = smooth(own, graph, 1)
    around = smooth(near, graph, 1)[root]
    if bool((y >= 0).any()):
        known = torch.cat([own[root], near[root], around], dim=1)
        around = task_space(around, out_of_fold_probabilities(known, y, seed=seed), TASK_WEIGHT)
    found = FlowKMeans(num_scenes, k, random_state=seed).fit(around)
    return torch.from_numpy(found.labels_).long()
