r"""Measures one cell of the benchmark: builds its graphs, trains GNNs on them and scores these."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose

from torch_geometric_cgt.benchmark.cells import Cell, table_name
from torch_geometric_cgt.benchmark.experiments import (
    EXPERIMENTS,
    BenchmarkConfig,
    CellKey,
    GraphSpec,
    num_sampled,
)
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, evaluate_gnn, train_gnn
from torch_geometric_cgt.benchmark.link_prediction import score_links
from torch_geometric_cgt.benchmark.metrics import (
    as_rows,
    compared_trees,
    duplicates,
    encode_source,
    histograms,
    wasserstein,
    zero_vectors,
)
from torch_geometric_cgt.benchmark.variants import find_variant
from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split
from torch_geometric_cgt.data.token_trees import masks_of
from torch_geometric_cgt.datasets import SyntheticCGTDataset, load_source
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.quantizer import reduce_features
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.transforms import AddNoisyEdges, BiasedTraining

STATISTICS = {'zero_vectors': zero_vectors, 'duplicates': duplicates}


@dataclass(frozen=True)
class CellGraphs:
    r"""The computation graphs of one :class:`GraphSpec`."""

    trees: dict[str, TokenTrees]  # by column: original, quantized, generated
    facts: dict[str, Any]


def load_graph(spec: GraphSpec) -> Data:
    r"""The original graph: the largest component, split 50/10/40 by the seed,
    with the noisy edges and the biased training set of the experiment.
    """
    data = load_source(spec.dataset, largest_component=True, random_split=True)[0]
    data = AddNoisyEdges(spec.noise, spec.seed)(data)
    for mask, value in masks_of(random_split(data.y >= 0, spec.seed)).items():
        data[mask] = value
    return BiasedTraining(spec.alpha, seed=spec.seed)(data) if spec.biased else data


def make_graphs(spec: GraphSpec, config: BenchmarkConfig, root: Path | None = None) -> CellGraphs:
    r"""Builds the synthetic graph, or loads it from the cache, and encodes all
    graphs. If the variant is a perturbation, the perturbed graph takes the
    place of the generated one.

    Args:
        spec (GraphSpec): Which graph.
        config (BenchmarkConfig): The settings of all cells.
        root (Path, optional): The folder of synthetic graphs.
            (default: the user's cache folder)
    """
    data, variant = load_graph(spec), find_variant(spec.variant)
    started = time.monotonic()
    if variant.perturb is not None:
        trees = perturbed_trees(data, variant.perturb(spec.seed), spec)
        return CellGraphs(trees, {'build_seconds': round(time.monotonic() - started, 1)})
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # homogeneous clusters are in the card
        dataset = SyntheticCGTDataset(
            data,
            num_neighbors=spec.num_neighbors,
            root=root,
            seed=spec.seed,
            log=False,
            privacy=variant.promise(config.k),
            generator=variant.generator,
            fit=FitConfig(epochs=config.epochs),
        )
    facts: dict[str, Any] = {'build_seconds': round(time.monotonic() - started, 1)}
    if holdout := (dataset.history or {}).get('holdout_nll'):  # private builds hold nothing out
        facts['holdout_nll'] = round(min(holdout), 4)
    trees = compared_trees(check_source(data), dataset, spec.seed)
    if variant.corrupt is not None:
        trees['generated'] = variant.corrupt(trees['generated'], spec.seed)
    return CellGraphs(trees, facts)


def perturbed_trees(
    data: Data, transforms: Sequence[BaseTransform], spec: GraphSpec
) -> dict[str, TokenTrees]:
    r"""Computation graphs of a graph and of its perturbation, with the same
    labels and splits.

    Args:
        data (Data): The original graph.
        transforms (list[BaseTransform]): The perturbations.
        spec (GraphSpec): The geometry and the seed of the trees.
    """
    perturbed = Compose(list(transforms))(data)
    return {'original': _trees_of(data, spec), 'generated': _trees_of(perturbed, spec)}


def _trees_of(data: Data, spec: GraphSpec) -> TokenTrees:
    source, shape = check_source(data), TreeShape.of(spec.num_neighbors)
    trees = encode_source(source, shape, spec.seed, spec.seed)
    return trees.map_tokens(None, trees.num_tokens, as_rows(source.data.x))


def measure_cell(
    key: CellKey,
    graphs: CellGraphs,
    spec: GraphSpec,
    config: BenchmarkConfig,
    original: Cell | None = None,
) -> Cell:
    r"""Measures one cell.

    Args:
        key (CellKey): The cell.
        graphs (CellGraphs): Its graphs.
        spec (GraphSpec): The description of these graphs.
        config (BenchmarkConfig): The settings of all cells.
        original (Cell, optional): A finished cell with the same scores on the
            original graph, which are then copied. (default: :obj:`None`)
    """
    measures = EXPERIMENTS[key.experiment].measures
    if measures == 'statistics':
        return _statistics(key, graphs.trees)
    if measures == 'exchange':
        scores = exchange_scores(key.level, key.model, graphs.trees, spec, key.seed)
        return Cell(key, {'score': scores})
    found, facts = {}, {}
    for column, trees in graphs.trees.items():
        if column == 'original' and original is not None:
            found[column] = original.scores[column]
            names = [original.facts.get(name) for name in ('original_from', 'copied_from')]
            facts['original_from'] = names[0] or names[1] or table_name(original.key)
        else:
            found[column] = _score(key, trees, config)
    return Cell(key, found, facts=facts)


def _score(key: CellKey, trees: TokenTrees, config: BenchmarkConfig) -> dict[str, float]:
    if EXPERIMENTS[key.experiment].measures == 'links':
        return score_links(key.model, key.level, trees, key.seed)
    training = GNNConfig.for_roots(trees.rows('train').numel())
    training = replace(training, num_sampled=num_sampled(key, config))
    model = train_gnn(key.model, trees, training, key.seed)
    return evaluate_gnn(model, trees, trees.rows('test'), key.seed)


def _statistics(key: CellKey, trees: dict[str, TokenTrees]) -> Cell:
    scores: dict[str, dict[str, float]] = {}
    counts = {name: histograms(statistic, trees) for name, statistic in STATISTICS.items()}
    for name, count in counts.items():
        for a, b in [('generated', 'quantized'), ('quantized', 'original')]:
            scores.setdefault(f'{a} to {b}', {})[name] = wasserstein(count[a], count[b])
    return Cell(key, scores, counts)


def exchange_scores(
    level: str, model: str, trees: dict[str, TokenTrees], spec: GraphSpec, seed: int
) -> dict[str, float]:
    r"""Trains on one graph and tests on another.

    Args:
        level (str): The graphs for training and test, for instance
            ``'generated / original'``. They are columns of :obj:`trees`; the
            first one can also be the name of another dataset.
        model (str): The name of the GNN.
        trees (dict[str, TokenTrees]): The graphs of the target dataset.
        spec (GraphSpec): The description of these graphs.
        seed (int): The seed of the training.
    """
    source, target = level.split(' / ')
    test = trees[target]
    train = trees[source] if source in trees else other_dataset(source, trees['original'], spec)
    config = GNNConfig.for_roots(train.rows('train').numel())
    return evaluate_gnn(train_gnn(model, train, config, seed), test, test.rows('test'), seed)


def trained_on(level: str) -> str:
    r"""The training graph of a level, see :meth:`exchange_scores`."""
    return level.split(' / ')[0]


def other_dataset(dataset: str, target: TokenTrees, spec: GraphSpec) -> TokenTrees:
    r"""The trees of another dataset with as many features and labels as the
    target has. Its features are reduced to principal components, and padded
    with zeros if there are fewer.

    Args:
        dataset (str): The name of the other dataset.
        target (TokenTrees): The trees of the target.
        spec (GraphSpec): The description of the target.
    """
    data = load_graph(replace(spec, dataset=dataset))
    width = target.features.size(1)
    z = reduce_features(data.x, min(width, *data.x.shape), spec.seed)[:, :width]
    data.x = F.pad(z.float(), (0, width - z.size(1)))
    trees = _trees_of(data, replace(spec, num_neighbors=target.shape.num_neighbors))
    return replace(trees, num_classes=max(trees.num_classes, target.num_classes))
