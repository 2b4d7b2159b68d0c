r"""The weight of class probabilities at which quantization neither costs nor adds accuracy."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.quantizer import cluster_means, reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import probe_accuracy
from torch_geometric_cgt.sampler import InNeighbors

WEIGHTS = (0.1, 0.2, 0.4, 0.8, 1.6)
NUM_HOPS = 2
NUM_COMPONENTS = 128


def calibrate_weight(
    x: Tensor,
    edge_index: Tensor | None,
    y: Tensor,
    quantized: Callable[[float], Tensor],
    seed: int = 0,
    train_mask: Tensor | None = None,
) -> float:
    r"""Finds the smallest weight at which a linear probe on the smoothed
    quantized features scores what it scores on the smoothed original ones.

    The probe sees what a linear GNN sees: features averaged over neighbours.
    It learns from training nodes and is tested on all others, as a GNN will be:
    what a biased training set costs it, the quantized graph must cost it, too.
    The weight is interpolated between the last two that were tried.

    Args:
        x (torch.Tensor): The features, ``[N, F]``.
        edge_index (torch.Tensor, optional): The edges; without them the probe
            sees a node alone.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        quantized (callable): Returns the cluster of each node at a weight.
        seed (int, optional): The seed of the probe. (default: :obj:`0`)
        train_mask (torch.Tensor, optional): The training nodes, ``[N]``. By
            default, the probe is cross-validated. (default: :obj:`None`)
    """
    # Averaging is linear: it can run on few components, and on the codebook's alone.
    z = reduce_features(x, NUM_COMPONENTS, seed)
    graph = None
    if edge_index is not None:
        graph = InNeighbors.from_edge_index(edge_index.cpu(), z.size(0))
    aim = probe_accuracy(smooth(z, graph), y, seed, train_mask)

    def gap(weight: float) -> float:
        cluster = quantized(weight)
        codebook = cluster_means(z, cluster, int(cluster.max()) + 1)
        score = probe_accuracy(smooth(codebook[cluster], graph), y, seed, train_mask)
        return score - aim

    low, low_gap = 0.0, gap(0.0)
    for weight in WEIGHTS:
        if low_gap >= 0:
            return low
        weight_gap = gap(weight)
        if weight_gap >= 0:
            return low + (weight - low) * low_gap / (low_gap - weight_gap)
        low, low_gap = weight, weight_gap
    return low


def smooth(z: Tensor, graph: InNeighbors | None, num_hops: int = NUM_HOPS) -> Tensor:
    r"""Averages features over a node and its in-neighbours, again and again.

    Args:
        z (torch.Tensor): The features, ``[N, D]``.
        graph (InNeighbors, optional): The neighbours.
        num_hops (int, optional): How many times. (default: :obj:`2`)
    """
    if graph is None:
        return z
    degree = 1 + graph.ptr.diff()
    for _ in range(num_hops):  # sums of rows without a row per edge
        total = F.embedding_bag(graph.source, z, graph.ptr[:-1], mode='sum')
        z = total.add_(z).div_(degree[:, None])
    return z
