r"""Public pre-training: a generator that starts from the weights of a public graph."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.sampler import TreeDraws
from torch_geometric_cgt.training import FitConfig, fit
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.utils.progress import Log
from torch_geometric_cgt.utils.seeds import derive_seed

# Weights that depend on the tokens, labels and scenes of one graph. They are not transferred.
OWN = ('streams.token.', 'streams.label.', 'streams.scene.', 'head.')


def pretrain(
    public: Source,
    num_tokens: int,
    shape: TreeShape,
    config: DPSGDConfig,
    seed: int,
    device: torch.device,
    log: Log = False,
) -> dict[str, Tensor]:
    r"""Fits a generator of the same size to a public graph, without noise, and
    returns the weights that can be transferred to another graph: positions,
    attention and the layers in between.

    Args:
        public (Source): The public graph.
        num_tokens (int): The number of clusters of the private graph. The
            public graph gets the same number if it has enough nodes.
        shape (TreeShape): The geometry of computation graphs.
        config (DPSGDConfig): The size of the generator.
        seed (int): The seed of clustering, weights and training.
        device (torch.device): Where to fit.
        log (bool, optional): Whether to show progress. (default: :obj:`False`)
    """
    data, root = public.data, public.root
    num_nodes, y = int(data.num_nodes or 0), data.y[public.root]
    size = max(1, min(num_tokens, num_nodes // 2))
    quantize = Quantize(
        1, size, seed=derive_seed(seed, 'quantize'), task_weight=None, device=device
    )
    with warnings.catch_warnings():
        # The warning about clusters with one label does not matter for a public graph.
        warnings.simplefilter('ignore', UserWarning)
        cluster = quantize.cluster(data).cluster
    graph = InNeighbors.from_edge_index(data.edge_index, num_nodes)
    draws = TreeDraws(graph, root, shape, cluster, size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, 'weights'))
        labels, fan_outs = public.num_classes, list(shape.num_neighbors)
        generator = config.make_generator(size, labels, fan_outs, labels)
    # The scene of a tree of the public graph is its label.
    fit(generator, draws.tokens, y, FitConfig(), derive_seed(seed, 'fit'), device, log, scene=y)
    return shared_weights(generator.cpu())


def shared_weights(generator: CGTGenerator) -> dict[str, Tensor]:
    r"""The weights that do not depend on the tokens, labels and scenes of one graph.

    Args:
        generator (CGTGenerator): The model.
    """
    weights = generator.state_dict()
    return {name: value for name, value in weights.items() if not name.startswith(OWN)}
