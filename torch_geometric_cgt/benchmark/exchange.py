r"""Trained on one graph, tested on another: does a synthetic graph stand in for the real one?"""

from __future__ import annotations

import dataclasses

import torch.nn.functional as F

from torch_geometric_cgt.benchmark.evaluate import SourceTrees
from torch_geometric_cgt.benchmark.graphs import GraphSpec, load_graph
from torch_geometric_cgt.benchmark.training import GNNConfig, TreeSet, evaluate_gnn, train_gnn
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.quantizer import reduce_features


def exchange_scores(
    level: str, model: str, sets: dict[str, TreeSet], spec: GraphSpec, seed: int
) -> dict[str, float]:
    r"""Trains on one graph and tests on another.

    Args:
        level (str): The two, as in ``'generated / original'``: columns of
            :obj:`sets`, or, to train on, the name of another dataset.
        model (str): The name of the GNN.
        sets (dict[str, TreeSet]): The graphs of the target dataset.
        spec (GraphSpec): What these are.
        seed (int): The seed of the training.
    """
    source, target = level.split(' / ')
    train = sets[source] if source in sets else foreign_set(source, sets, spec)
    test = sets[target]
    config = GNNConfig.for_roots(train.rows('train').numel())
    return evaluate_gnn(train_gnn(model, train, config, seed), test, test.rows('test'), seed)


def trained_on(level: str) -> str:
    r"""The first of the two graphs of a level, see :meth:`exchange_scores`."""
    return level.split(' / ')[0]


def foreign_set(dataset: str, sets: dict[str, TreeSet], spec: GraphSpec) -> TreeSet:
    r"""Another dataset with the features and labels of the target: principal
    components, as many as the target has features, and zeros where there are
    fewer.
    """
    target = sets['original']
    data = load_graph(dataclasses.replace(spec, dataset=dataset))
    width = target.x.size(1)
    z = reduce_features(data.x, min(width, *data.x.shape), spec.seed)[:, :width]
    data.x = F.pad(z.float(), (0, width - z.size(1)))
    trees = SourceTrees(check_source(data), target.shape, spec.seed, spec.seed).with_features(
        data.x
    )
    return dataclasses.replace(trees, num_classes=max(trees.num_classes, target.num_classes))
