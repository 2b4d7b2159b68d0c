r"""Scenes: classes of roots with alike surroundings."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer import FlowKMeans, reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import out_of_fold_probabilities, task_space
from torch_geometric_cgt.sampler import InNeighbors
from torch_geometric_cgt.sampler.neighbors import smooth

NUM_COMPONENTS = 64
TASK_WEIGHT = 2.0  # of class probabilities beside averaged features of unit variance


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
    r"""Groups roots by what a GNN sees around them: cluster means, averaged
    over two hops, and the class probabilities of a linear model that sees a
    root, its neighbours and that average apart.

    A scene tells how far a neighbourhood agrees with the label of its root.
    Labels are looked at out of fold, so that a root whose surroundings speak
    for another label is in a scene of that other label.

    Args:
        cluster (torch.Tensor): The cluster of each node, ``[N]``.
        codebook (torch.Tensor): The mean feature vectors, ``[m, F]``.
        graph (InNeighbors): The neighbours of each node.
        root (torch.Tensor): The nodes that are grouped, ``[n]``.
        y (torch.Tensor): The labels of these that may be learned from, ``[n]``,
            negative elsewhere.
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
