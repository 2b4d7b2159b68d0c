r"""The graphs of a cell: original, quantized and generated computation graphs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose

from torch_geometric_cgt.benchmark.cells import CellKey
from torch_geometric_cgt.benchmark.evaluate import SourceTrees, tree_sets
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.benchmark.training import TreeSet
from torch_geometric_cgt.benchmark.variants import find_variant
from torch_geometric_cgt.data import TreeShape, random_split
from torch_geometric_cgt.data.split import masks_of
from torch_geometric_cgt.datasets import SyntheticCGTDataset, load_source
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.transforms import AddNoisyEdges, BiasedTraining


@dataclass(frozen=True)
class BenchmarkConfig:
    r"""What all cells of a benchmark share."""

    k: int = 30
    num_neighbors: tuple[int, ...] = (5, 5)
    epochs: int | None = None  # of the generator; by the size of the graph

    def __post_init__(self) -> None:
        for name, value in [('k', self.k), ('epochs', self.epochs)]:
            if value is not None and value < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {value})")


@dataclass(frozen=True)
class GraphSpec:
    r"""Which graph a cell is measured on. Cells of several tables share one."""

    dataset: str
    num_neighbors: tuple[int, ...]
    noise: int = 0  # edges per node
    alpha: float | None = None  # of a biased training set
    biased: bool = False  # whether training sets are chosen label by label
    variant: str = ''
    seed: int = 0


@dataclass(frozen=True)
class Graphs:
    r"""Computation graphs of one :class:`GraphSpec`."""

    sets: dict[str, TreeSet]  # by column
    facts: dict[str, Any]


def graph_of(key: CellKey, config: BenchmarkConfig) -> GraphSpec:
    r"""The graph that a cell is measured on."""
    if key.experiment not in EXPERIMENTS:
        raise ValueError(f"Unknown experiment '{key.experiment}'; choose from {list(EXPERIMENTS)}")
    experiment = EXPERIMENTS[key.experiment]
    variant = '' if key.variant == f'k={config.k}' else key.variant  # two names of one graph
    spec = GraphSpec(key.dataset, config.num_neighbors, variant=variant, seed=key.seed)
    if experiment.measures == 'links':  # both ends of an edge need a tree
        return replace(spec, num_neighbors=(config.num_neighbors[0], *config.num_neighbors))
    if experiment.level_is == 'noise':
        noise = int(key.level)
        grown = tuple(fan_out + noise for fan_out in config.num_neighbors)
        return replace(spec, num_neighbors=grown, noise=noise)
    if experiment.level_is == 'alpha':
        alpha = None if key.level == 'iid' else float(key.level)
        return replace(spec, alpha=alpha, biased=True)
    if experiment.level_is == 'fan_out':
        return replace(spec, num_neighbors=(int(key.level),) * len(config.num_neighbors))
    return spec


def load_graph(spec: GraphSpec) -> Data:
    r"""The original graph: the largest component, split 50/10/40 by the seed,
    with what the experiment does to it.
    """
    data = load_source(spec.dataset, largest_component=True, random_split=True)[0]
    data = AddNoisyEdges(spec.noise, spec.seed)(data)
    for mask, value in masks_of(random_split(data.y >= 0, spec.seed)).items():
        data[mask] = value
    return BiasedTraining(spec.alpha, seed=spec.seed)(data) if spec.biased else data


def make_graphs(spec: GraphSpec, config: BenchmarkConfig, root: Path | None = None) -> Graphs:
    r"""Builds, or reads, the synthetic graph and encodes all three; or
    perturbs the original one, which then has the place of the generated graph.

    Args:
        spec (GraphSpec): Which graph.
        config (BenchmarkConfig): What all cells share.
        root (Path, optional): Where synthetic graphs are kept.
            (default: the user's cache folder)
    """
    data, variant = load_graph(spec), find_variant(spec.variant)
    started = time.monotonic()
    if variant.perturb is not None:
        sets = perturbed_sets(data, variant.perturb(spec.seed), spec)
        return Graphs(sets, {'build_seconds': round(time.monotonic() - started, 1)})
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # homogeneous clusters are in the card
        dataset = SyntheticCGTDataset(
            data,
            num_neighbors=spec.num_neighbors,
            root=root,
            seed=spec.seed,
            fit_config=FitConfig(epochs=config.epochs),
            log=False,
            **({} if 'epsilon' in variant.build else {'k': config.k}) | variant.build,
        )
    facts: dict[str, Any] = {'build_seconds': round(time.monotonic() - started, 1)}
    if holdout := (dataset.history or {}).get('holdout_nll'):  # private builds hold nothing out
        facts['holdout_nll'] = round(min(holdout), 4)
    sets = tree_sets(check_source(data), dataset, spec.seed)
    if variant.spoil is not None:
        sets['generated'] = variant.spoil(sets['generated'], spec.seed)
    return Graphs(sets, facts)


def perturbed_sets(
    data: Data, transforms: Sequence[BaseTransform], spec: GraphSpec
) -> dict[str, TreeSet]:
    r"""Computation graphs of a graph and of its perturbation, with the same
    labels and splits.

    Args:
        data (Data): The original graph.
        transforms (list[BaseTransform]): What is done to it.
        spec (GraphSpec): Which graph it is.
    """
    shape = TreeShape.of(spec.num_neighbors)
    sets: dict[str, TreeSet] = {}
    for column, graph in [('original', data), ('generated', Compose(list(transforms))(data))]:
        source = check_source(graph)
        trees = SourceTrees(source, shape, spec.seed, spec.seed)
        sets[column] = trees.with_features(source.data.x)
    return sets
