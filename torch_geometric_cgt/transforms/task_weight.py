r"""Calibration of the task weight: at it, quantization neither costs nor adds accuracy."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from torch_geometric_cgt.data import InNeighbors
from torch_geometric_cgt.data.in_neighbors import smooth
from torch_geometric_cgt.quantizer import cluster_means, reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import probe_accuracy

WEIGHTS = (0.1, 0.2, 0.4, 0.8, 1.6)
NUM_COMPONENTS = 128


def calibrate_task_weight(
    x: Tensor,
    edge_index: Tensor | None,
    y: Tensor,
    quantized: Callable[[float], Tensor],
    seed: int = 0,
    train_mask: Tensor | None = None,
) -> float:
    r"""Finds the smallest weight at which a linear probe on quantized features is
    as accurate as on the original ones.

    The features are averaged over neighbours, as a linear GNN does. The probe
    learns from the training nodes and is tested on all others, as a GNN is:
    the accuracy lost to a biased training set must stay lost on the quantized
    graph. The weight is interpolated between the last two that were tried.

    Args:
        x (torch.Tensor): The features, ``[N, F]``.
        edge_index (torch.Tensor, optional): The edges. Without them, features
            are not averaged.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        quantized (callable): Returns the cluster of each node at a weight.
        seed (int, optional): The seed of the probe. (default: :obj:`0`)
        train_mask (torch.Tensor, optional): The training nodes, ``[N]``. By
            default, the probe is cross-validated. (default: :obj:`None`)
    """
    # Averaging is linear, so it commutes with the projection on few components.
    z = reduce_features(x, NUM_COMPONENTS, seed)
    graph = None
    if edge_index is not None:
        graph = InNeighbors.from_edge_index(edge_index.cpu(), z.size(0))
    target = probe_accuracy(smooth(z, graph), y, seed, train_mask)

    def gap(weight: float) -> float:
        cluster = quantized(weight)
        codebook = cluster_means(z, cluster, int(cluster.max()) + 1)
        score = probe_accuracy(smooth(codebook[cluster], graph), y, seed, train_mask)
        return score - target

    low, low_gap = 0.0, gap(0.0)
    for weight in WEIGHTS:
        if low_gap >= 0:
            return low
        weight_gap = gap(weight)
        if weight_gap >= 0:
            return low + (weight - low) * low_gap / (low_gap - weight_gap)
        low, low_gap = weight, weight_gap
    return low
