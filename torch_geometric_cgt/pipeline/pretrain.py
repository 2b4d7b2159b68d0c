r"""Public pre-training: the start of a private generator, learned from another graph."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape, tokens_of
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.training import FitConfig, fit
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.utils.seeds import derive_seed

# What tokens, labels and scenes are is another matter in each graph.
OWN = ('streams.token.', 'streams.label.', 'streams.scene.', 'head.')


def pretrain(
    public: Source,
    num_tokens: int,
    shape: TreeShape,
    config: DPSGDConfig,
    seed: int,
    device: torch.device,
    log: bool = False,
) -> dict[str, Tensor]:
    r"""Fits a generator of the same size to a public graph, without noise, and
    returns those of its weights that mean the same in every graph: positions,
    attention and the layers in between.

    Args:
        public (Source): The public graph.
        num_tokens (int): The number of clusters of the private graph, of which
            the public one gets as many, if it has enough nodes.
        shape (TreeShape): The geometry of computation graphs.
        config (DPSGDConfig): The size of the generator.
        seed (int): The seed of all of it.
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
        warnings.simplefilter('ignore', UserWarning)  # of clusters of one label: they are public
        cluster = quantize.cluster(data).cluster
    graph = InNeighbors.from_edge_index(data.edge_index, num_nodes)

    def draw_tokens(index: Tensor, rng: torch.Generator) -> Tensor:
        return tokens_of(sample_trees(graph, root[index], shape, rng), cluster, size)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, 'weights'))
        labels, fan_outs = public.num_classes, list(shape.num_neighbors)
        generator = config.make_generator(size, labels, fan_outs, labels)
    # A tree of this graph speaks for the label that it has.
    fit(generator, draw_tokens, y, FitConfig(), derive_seed(seed, 'fit'), device, log, scene=y)
    return shared_weights(generator.cpu())


def shared_weights(generator: CGTGenerator) -> dict[str, Tensor]:
    r"""The weights that do not depend on a vocabulary, on labels or on scenes.

    Args:
        generator (CGTGenerator): The model.
    """
    weights = generator.state_dict()
    return {name: value for name, value in weights.items() if not name.startswith(OWN)}
